package replication

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectlog"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/partition"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

const (
	things    = "things"
	others    = "others"
	namespace = "coder-system"
)

// patience is how long a test waits for what must come.
var patience = polltest.Timeout()

// patient is a timing in which no replica is taken for dead, slow or silent because the
// machine is busy: for tests of what is decided, not of when. Nobody but a writer that
// hands over is replaced while a test waits.
func patient() timing {
	t := timing{}.withDefaults(2 * patience)
	t.renew, t.request = patience, patience
	t.acknowledge, t.silence, t.write, t.dial = patience, patience, patience, patience
	t.prepare, t.pull, t.drain, t.fresh, t.appear = patience, patience, patience, patience, patience
	return t
}

// quick is patient but for the Lease, which runs out soon.
func quick() timing {
	t := patient()
	t.lease, t.renew, t.retry, t.request = 3*time.Second, 2*time.Second, 100*time.Millisecond, time.Second
	t.reserve = 3 * time.Second
	t.publish, t.relist = time.Second, 20*time.Millisecond
	t.beat, t.reconnect = 200*time.Millisecond, 20*time.Millisecond
	return t
}

// hasty gives up everything soon, so that replicas part and come together again by
// themselves too.
func hasty() timing {
	t := timing{}.withDefaults(0)
	t.lease, t.renew, t.retry, t.request = time.Second, 600*time.Millisecond, 100*time.Millisecond, 500*time.Millisecond
	t.reserve = 3 * time.Second
	t.publish, t.relist = time.Second, 20*time.Millisecond
	t.beat, t.silence = 200*time.Millisecond, 2*time.Second
	t.reconnect = 20 * time.Millisecond
	return t
}

// leases is kube-apiserver for Leases, with its optimistic locking.
type leases struct {
	mu      sync.Mutex
	version int
	items   map[string]*coordinationv1.Lease
}

var leaseResource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

func (l *leases) react(action clienttesting.Action) (runtime.Object, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch a := action.(type) {
	case clienttesting.CreateActionImpl:
		lease := a.Object.(*coordinationv1.Lease)
		if _, there := l.items[lease.Name]; there {
			return nil, apierrors.NewAlreadyExists(leaseResource, lease.Name)
		}
		return l.put(lease), nil
	case clienttesting.UpdateActionImpl:
		lease := a.Object.(*coordinationv1.Lease)
		current, there := l.items[lease.Name]
		if !there {
			return nil, apierrors.NewNotFound(leaseResource, lease.Name)
		}
		if current.ResourceVersion != lease.ResourceVersion {
			return nil, apierrors.NewConflict(leaseResource, lease.Name, errors.New("it was changed"))
		}
		return l.put(lease), nil
	case clienttesting.GetActionImpl:
		if current, there := l.items[a.Name]; there {
			return current.DeepCopy(), nil
		}
		return nil, apierrors.NewNotFound(leaseResource, a.Name)
	case clienttesting.ListActionImpl:
		list := &coordinationv1.LeaseList{}
		for _, lease := range l.items {
			list.Items = append(list.Items, *lease.DeepCopy())
		}
		return list, nil
	case clienttesting.DeleteActionImpl:
		if _, there := l.items[a.Name]; !there {
			return nil, apierrors.NewNotFound(leaseResource, a.Name)
		}
		delete(l.items, a.Name)
		return &coordinationv1.Lease{}, nil
	}
	return nil, fmt.Errorf("the test's kube-apiserver does not know %T", action)
}

func (l *leases) put(lease *coordinationv1.Lease) *coordinationv1.Lease {
	l.version++
	stored := lease.DeepCopy()
	stored.Namespace, stored.ResourceVersion = namespace, strconv.Itoa(l.version)
	l.items[lease.Name] = stored
	return stored.DeepCopy()
}

func (l *leases) get(name string) *coordinationv1.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.items[name].DeepCopy()
}

// network is that of one node. It can be cut.
type network struct {
	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]struct{}
}

func (n *network) set(cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = cut
	if cut {
		for conn := range n.conns {
			conn.Close()
		}
		clear(n.conns)
	}
}

func (n *network) isCut() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut
}

func (n *network) take(conn net.Conn) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut {
		conn.Close()
		return errors.New("the network is cut")
	}
	n.conns[conn] = struct{}{}
	return nil
}

func (n *network) dial(ctx context.Context, family, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, family, address)
	if err != nil {
		return nil, err
	}
	return conn, n.take(conn)
}

// listener accepts nothing while the network is cut.
type listener struct {
	net.Listener
	network *network
}

func (l listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.network.take(conn) == nil {
			return conn, nil
		}
	}
}

// cluster is some replicas and their kube-apiserver.
type cluster struct {
	t      testing.TB
	api    *leases
	timing timing
	logger logr.Logger
	nodes  []*node
}

func newCluster(t *testing.T, timing timing) *cluster {
	t.Helper()
	return &cluster{
		t: t, api: &leases{items: map[string]*coordinationv1.Lease{}}, timing: timing, logger: testLogger(t),
	}
}

// testLogger writes nothing once the test has ended: the server of a replica does not
// wait for handshakes.
func testLogger(t *testing.T) logr.Logger {
	var mu sync.Mutex
	ended := !testing.Verbose()
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		ended = true
	})
	return funcr.New(func(prefix, args string) {
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			t.Log(prefix, args)
		}
	}, funcr.Options{})
}

// node is one replica with what stands around it.
type node struct {
	*Replica
	name    string
	logs    map[string]*objectlog.Log
	board   *partition.Board
	network *network
	// passive keeps it from becoming the writer.
	passive atomic.Bool
	stop    context.CancelFunc
	stopped chan struct{}
}

type options struct {
	clock   clock.Clock
	history int
	logs    map[string]*objectlog.Log
	run     func(ctx context.Context)
	writer  objectlog.Writer
	metrics *Metrics
	tracing *tracing.Provider
	// cut begins without a network.
	cut bool
}

// start adds a replica.
func (c *cluster) start(name string, o options) *node {
	c.t.Helper()
	n := &node{
		name: name, board: &partition.Board{}, network: &network{cut: o.cut, conns: map[net.Conn]struct{}{}}, logs: o.logs,
		stopped: make(chan struct{}),
	}
	if n.logs == nil {
		n.logs = map[string]*objectlog.Log{
			things: objectlog.New(objectlog.Config{History: o.history}),
			others: objectlog.New(objectlog.Config{History: o.history}),
		}
	}
	client := &fake.Clientset{}
	client.AddReactor("*", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if n.network.isCut() {
			return true, nil, errors.New("kube-apiserver cannot be reached")
		}
		if update, ok := action.(clienttesting.UpdateActionImpl); ok && n.passive.Load() {
			if update.Object.(*coordinationv1.Lease).Name == electionLease {
				return true, nil, errors.New("it shall not become the writer")
			}
		}
		object, err := c.api.react(action)
		return true, object, err
	})
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	logs := map[string]LogConfig{}
	for resource, log := range n.logs {
		logs[resource] = LogConfig{Log: log, NewObject: func() objectlog.Object { return &corev1.ConfigMap{} }}
	}
	n.Replica, err = New(Config{
		Identity: name, Namespace: namespace, Client: client, Listener: listener{inner, n.network},
		Logs: logs, Board: n.board, Clock: o.clock, Metrics: o.metrics, Tracing: o.tracing, timing: c.timing, dial: n.network.dial,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	committers := map[string]objectlog.Committer{}
	for resource, log := range n.logs {
		committers[resource] = objectlog.NewLocalCommitter(log, n.Sequencer(resource), o.writer)
	}
	n.Lead(Duties{Committers: committers, Run: o.run})
	ctx, cancel := context.WithCancel(log.IntoContext(context.Background(), c.logger))
	n.stop = cancel
	go func() {
		defer close(n.stopped)
		if err := n.Start(ctx); err != nil && !n.network.isCut() {
			c.t.Errorf("replica %s: %v", name, err)
		}
	}()
	c.t.Cleanup(n.halt)
	c.nodes = append(c.nodes, n)
	return n
}

// halt stops it gracefully.
func (n *node) halt() {
	n.stop()
	<-n.stopped
}

// kill is what SIGKILL does: nobody hears of it any more.
func (n *node) kill() {
	n.network.set(true)
	n.stop()
}

// writer waits for the one writer among the nodes, of which all must be ready.
func writerOf(t testing.TB, nodes ...*node) *node {
	t.Helper()
	var found *node
	polltest.Eventually(t, "there is a writer whom the others follow", func() bool {
		found = nil
		count := 0
		for _, n := range nodes {
			if n.Writing() {
				found = n
				count++
			}
			if n.Ready() != nil {
				return false
			}
		}
		return count == 1 && found.followers(things) == len(nodes)-1
	})
	return found
}

// followers counts those that are as far as the writer.
func (r *Replica) followers(resource string) int {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	count := 0
	for s := range r.hub.followers {
		if s.live[resource] {
			count++
		}
	}
	return count
}

// trio starts three replicas, and gives the writer first.
func (c *cluster) trio(o options) (writer, one, two *node) {
	c.t.Helper()
	all := []*node{c.start("a", o), c.start("b", o), c.start("c", o)}
	writer = writerOf(c.t, all...)
	var rest []*node
	for _, n := range all {
		if n != writer {
			rest = append(rest, n)
		}
	}
	return writer, rest[0], rest[1]
}

func key(name string) string { return "/test/things/" + name }

func thing(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "test", Name: name}, Data: map[string]string{"value": value}}
}

// write commits a value through a replica.
func (n *node) write(ctx context.Context, resource, name, value string) (*objectlog.Entry, error) {
	for {
		var expect uint64
		if current := n.logs[resource].Get(key(name)); current != nil {
			expect = current.Revision
		}
		entry, err := n.Committer(resource).Commit(ctx, objectlog.Commit{Key: key(name), Expect: expect, Object: thing(name, value)})
		if errors.Is(err, objectlog.ErrChanged) {
			continue
		}
		return entry, err
	}
}

// mustWrite tries again while nobody can decide, as a client does: a writer that got no
// processor for a while loses the Lease.
func (n *node) mustWrite(t *testing.T, name, value string) (entry *objectlog.Entry) {
	t.Helper()
	polltest.Eventually(t, "a write is done", func() bool {
		var err error
		entry, err = n.write(t.Context(), things, name, value)
		if err != nil && !apierrors.IsServiceUnavailable(err) {
			t.Fatalf("writing %s through %s: %v", name, n.name, err)
		}
		return err == nil
	})
	return entry
}

// value is what a replica's log shows.
func (n *node) value(name string) string {
	entry := n.logs[things].Get(key(name))
	if entry == nil {
		return ""
	}
	return entry.Object.(*corev1.ConfigMap).Data["value"]
}

// story tells a log's content and all the history it has, to compare.
func story(log *objectlog.Log) map[string]string {
	told := map[string]string{}
	entries, head := log.Snapshot()
	told["head"] = strconv.FormatUint(head, 10)
	for _, entry := range entries {
		told["state "+entry.Key] = fmt.Sprint(entry.Revision, " ", text(entry.Object))
	}
	return told
}

func text(object objectlog.Object) string {
	if object == nil {
		return "gone"
	}
	return object.GetResourceVersion() + " " + object.(*corev1.ConfigMap).Data["value"]
}
