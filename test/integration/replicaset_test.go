package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

var workspacesGVR = schema.GroupVersionResource{Group: "aggregation.coder.com", Version: "v1alpha1", Resource: "coderworkspaces"}

// replica is one of several processes that serve the aggregated API, reached without
// kube-apiserver so that a client chooses its replica.
type replica struct {
	*process
	config *rest.Config
	client dynamic.Interface

	mu sync.Mutex
	// up reports whether the process was started and is not paused.
	up, paused bool
	// lives counts how often it was started or resumed. The history of its watches begins
	// at revision since at the latest.
	lives int
	since uint64
}

// replicas are those of one test.
type replicas []*replica

// startReplicas starts n replicas.
func startReplicas(t *testing.T, proxy string, n int, args ...string) replicas {
	t.Helper()
	all := make(replicas, n)
	for i := range all {
		all[i] = &replica{process: startProcess(t, proxy, append([]string{"--app=aggregated-apiserver"}, args...)...), up: true, lives: 1}
	}
	for _, r := range all {
		r.ready(t)
		r.config = directConfig(t, r.process)
		var err error
		if r.client, err = dynamic.NewForConfig(r.config); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// directConfig returns a configuration that connects to a process as the administrator,
// and trusts the operator's own CA.
func directConfig(t *testing.T, p *process) *rest.Config {
	t.Helper()
	secret := read(t, &corev1.Secret{}, operatorNamespace, "coder-k8s-apiserver-tls")
	config := rest.CopyConfig(environment.config)
	config.Host = "https://127.0.0.1:" + p.apiPort
	config.CAData, config.CAFile = secret.Data["ca.crt"], ""
	config.ServerName = "coder-k8s-apiserver." + operatorNamespace + ".svc"
	config.QPS = -1
	return config
}

// alive reports whether the replica runs, and the number of its current life.
func (r *replica) alive() (bool, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.up, r.lives
}

func (r *replica) set(up bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.up = up; up {
		r.lives++
	}
	r.paused = false
}

// pause stops the process with SIGSTOP. Clients that stay at this replica still send
// requests, which are answered after resume.
func (r *replica) pause(t *testing.T) {
	t.Helper()
	r.set(false)
	r.signal(t, syscall.SIGSTOP)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paused = true
}

func (r *replica) resume(t *testing.T) {
	t.Helper()
	r.signal(t, syscall.SIGCONT)
	r.set(true)
}

// dead reports whether the process has ended and was not started again.
func (r *replica) dead() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.up && !r.paused
}

// begins sets the revision before which watches at the replica may return 410.
func (r *replica) begins(revision uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since = revision
}

// forgot reports whether the replica may return 410 for a watch from a revision: its
// history begins when it starts, as that of kube-apiserver's watch cache does.
func (r *replica) forgot(revision uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return revision <= r.since
}

// living returns the running replicas.
func (all replicas) living() replicas {
	return slices.DeleteFunc(slices.Clone(all), func(r *replica) bool {
		up, _ := r.alive()
		return !up
	})
}

// any returns a running replica.
func (all replicas) any() *replica {
	living := all.living()
	return living[rand.IntN(len(living))]
}

// service returns a configuration that connects to a running replica, like a Service.
func (all replicas) service() *rest.Config {
	config := rest.CopyConfig(all[0].config)
	config.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, "127.0.0.1:"+all.any().apiPort)
	}
	return config
}

// leader waits until a running replica holds the Lease, and returns it.
func (all replicas) leader(t *testing.T) *replica {
	t.Helper()
	var found *replica
	polltest.Eventually(t, "a replica holds the Lease", func(ctx context.Context) error {
		lease := &coordinationv1.Lease{}
		key := client.ObjectKey{Namespace: operatorNamespace, Name: "coder-k8s-aggregated-api"}
		if err := environment.client.Get(ctx, key, lease); err != nil {
			return err
		}
		holder := holderOf(lease)
		i := slices.IndexFunc(all, func(r *replica) bool { return r.name == holder })
		if i < 0 {
			return fmt.Errorf("the Lease is held by %q", holder)
		}
		if found = all[i]; !slices.Contains(all.living(), found) {
			return fmt.Errorf("the Lease is held by %q, which does not run", holder)
		}
		return nil
	})
	return found
}

// isNoHolder fails the test if a replica that was shut down still holds the Lease, so
// that the others have to wait until it expires.
func (r *replica) isNoHolder(t *testing.T) {
	t.Helper()
	if holder := holderOf(read(t, &coordinationv1.Lease{}, operatorNamespace, "coder-k8s-aggregated-api")); holder == r.name {
		t.Errorf("the Lease is held by %s, which has ended", holder)
	}
}

// writesBack waits until a write to the running replicas succeeds, and logs how long that
// took. A write that is refused until then must have status 503 and Retry-After.
func (all replicas) writesBack(t *testing.T, since time.Time, ns, name string) {
	t.Helper()
	refused := 0
	polltest.Eventually(t, "writes are carried out again", func(ctx context.Context) error {
		r := all.any()
		c, err := discovery.NewDiscoveryClientForConfig(r.config)
		if err != nil {
			return err
		}
		body := fmt.Appendf(nil, `{"metadata":{"labels":{"probe":"p%d"}}}`, time.Now().UnixNano())
		err = c.RESTClient().Patch(types.MergePatchType).AbsPath("/apis/aggregation.coder.com/v1alpha1/namespaces/" + ns + "/coderworkspaces/" + name).
			Body(body).MaxRetries(0).Do(ctx).Error()
		if err == nil {
			return nil
		}
		refused++
		if _, later := apierrors.SuggestsClientDelay(err); !later || !apierrors.IsServiceUnavailable(err) {
			t.Errorf("a write during a failover is answered with %v, not with 503 and Retry-After", err)
		}
		return err
	})
	t.Logf("a write succeeded after %.2f s, %d were refused until then", time.Since(since).Seconds(), refused)
}

// holderOf returns the name of the process that holds the Lease. The rest of the holder
// identity distinguishes the lives of the process.
func holderOf(lease *coordinationv1.Lease) string {
	name, _, _ := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
	return name
}

// forgetReplica removes the Leases of a dead process, so that the next test need not wait
// until they expire.
func forgetReplica(t *testing.T, p *process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), polltest.Timeout())
	defer cancel()
	own := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "coder-k8s-apiserver-" + p.name}}
	err := client.IgnoreNotFound(environment.client.Delete(ctx, own))
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: operatorNamespace, Name: "coder-k8s-aggregated-api"}
	if failed := environment.client.Get(ctx, key, lease); failed != nil {
		err = errors.Join(err, client.IgnoreNotFound(failed))
	} else if holderOf(lease) == p.name {
		lease.Spec.HolderIdentity = ptr.To("")
		err = errors.Join(err, environment.client.Update(ctx, lease))
	}
	if err != nil && !apierrors.IsConflict(err) {
		t.Errorf("removing the Leases of %s: %v", p.name, err)
	}
}
