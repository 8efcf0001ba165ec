package apiserver

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	restclient "k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/certificates"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/mirror"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records/recordstest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

// provider is a set of control planes that tests can change.
type provider struct {
	mu          sync.Mutex
	connections []connections.Connection
	// unavailable are the namespaces whose control plane is not ready.
	unavailable []string
	// newcomers are control planes without a connection.
	newcomers []connections.Member
	// unwatched is a namespace whose control planes are not served.
	unwatched string
}

func (p *provider) add(c connections.Connection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.connections = append(p.connections, c)
}

func (p *provider) setRules(namespace string, rules []coderv1alpha1.IdentityRule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.connections {
		if p.connections[i].ControlPlane.Namespace == namespace {
			p.connections[i].Rules = rules
		}
	}
}

func (p *provider) remove(namespace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.connections = slices.DeleteFunc(p.connections, func(c connections.Connection) bool { return c.ControlPlane.Namespace == namespace })
}

func (p *provider) unready(namespaces ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unavailable = namespaces
}

func (p *provider) introduce(all ...connections.Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newcomers = all
}

// ForNamespace implements connections.Provider.
func (p *provider) ForNamespace(_ context.Context, namespace string) ([]connections.Connection, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []connections.Connection
	for _, c := range p.connections {
		if c.ControlPlane.Namespace == namespace {
			out = append(out, c)
		}
	}
	missing := &connections.UnavailableError{RetryAfter: 3 * time.Second}
	for _, n := range p.unavailable {
		if n == namespace {
			missing.ControlPlanes = append(missing.ControlPlanes, n+"/coder: the operator has no token yet")
		}
	}
	for _, m := range p.newcomers {
		if m.ControlPlane.Namespace == namespace {
			missing.ControlPlanes = append(missing.ControlPlanes, m.ControlPlane.String()+": "+m.Reason)
		}
	}
	if len(missing.ControlPlanes) > 0 {
		return out, missing
	}
	return out, nil
}

// Members implements connections.Provider.
func (p *provider) Members(context.Context) ([]connections.Member, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []connections.Member
	for _, c := range p.connections {
		out = append(out, connections.Member{
			ControlPlane: c.ControlPlane, UID: types.UID(c.ControlPlane.String()), NamePrefix: c.NamePrefix, Named: true, Connection: &c,
			PodNamespaces: []string{c.ControlPlane.Namespace},
		})
	}
	for _, n := range p.unavailable {
		out = append(out, connections.Member{
			ControlPlane: types.NamespacedName{Namespace: n, Name: "coder"}, UID: types.UID(n), Named: true, Reason: "the operator has no token yet",
		})
	}
	return append(out, p.newcomers...), nil
}

// Knows implements Connections.
func (p *provider) Knows(namespace string) bool { return namespace != p.unwatched }

// Serves implements Connections.
func (p *provider) Serves(ctx context.Context, namespace string) (bool, error) {
	found, err := p.ForNamespace(ctx, namespace)
	return len(found) > 0 || err != nil, nil
}

// journal collects the logs of the servers of this process. It is printed when a test fails, and
// searched for messages of the library about bugs.
type journal struct {
	mu    sync.Mutex
	lines []string
}

// Write implements io.Writer.
func (j *journal) Write(p []byte) (int, error) {
	j.add(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	// The beginning of a line identifies it.
	j.lines = append(j.lines, line[:min(len(line), 1000)])
}

func (j *journal) logger() logr.Logger {
	return funcr.New(func(prefix, args string) { j.add(prefix + " " + args) }, funcr.Options{LogTimestamp: true})
}

// having returns the lines that contain a text.
func (j *journal) having(text string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(j.lines), func(line string) bool { return !strings.Contains(line, text) })
}

// site is a running aggregated API server with a fake cluster.
type site struct {
	kube     *fake.Clientset
	provider *provider
	// workspaces and templates are the records in the cluster. untyped has all other objects.
	workspaces, templates, users, sources *recordstest.Cluster
	untyped                               dynamic.Interface
	timing                                mirror.Timing
	journal                               *journal
	tracing                               *tracing.Provider
	// agent is the agent of all workspaces.
	agent *fakeAgent
	// files are the files of the certificate. If empty, the server creates its own certificate.
	files options.CertKey
	// delegate replaces letTesterIn.
	delegate func(*server.Config) ([]authority, error)
	// joined counts the namespaces that were created on the site.
	joined atomic.Int32
	// identity is the name of the replica, and clock its clock: nil means the real one.
	identity string
	clock    clock.WithTicker

	server   *Server
	listener net.Listener
	config   *restclient.Config
	client   dynamic.Interface
	// stop stops the server and waits until it has ended.
	stop func()
}

// fast returns timing in which the mirror sees changes within milliseconds. An outage is detected
// soon, and QuarantineAfter is not reached.
func fast() mirror.Timing {
	const often = 40 * time.Millisecond
	timing := mirror.DefaultTiming()
	for _, interval := range []*time.Duration{
		&timing.Members, &timing.Jobs, &timing.Agents, &timing.Busy, &timing.Drowsy, &timing.Templates, &timing.Users, &timing.Count,
		&timing.Batch, &timing.Round, &timing.Probe,
	} {
		*interval = often
	}
	timing.Organizations, timing.StaleAfter, timing.RefusedAfter = time.Second, 300*time.Millisecond, 200*time.Millisecond
	timing.ConfirmAfter, timing.Rate = 100*time.Millisecond, 5000
	return timing
}

// newSite prepares a cluster with the namespaces empty, pending and second. It starts nothing.
func newSite(t testing.TB, notes *journal) *site {
	etcd := &recordstest.Etcd{}
	return &site{
		workspaces: recordstest.NewCluster(etcd, "coderworkspacerecords"), templates: recordstest.NewCluster(etcd, "codertemplaterecords"),
		sources: recordstest.NewCluster(etcd, "codertemplatesources"), users: recordstest.NewCluster(etcd, "coderuserrecords"),
		untyped: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
			certificates.APIServices: "APIServiceList", mirrorStates: "CoderMirrorStateList",
		}),
		kube:     fake.NewClientset(namespace("empty"), namespace("pending"), namespace("second")),
		provider: &provider{}, timing: fast(), journal: notes,
		agent: newFakeAgent(t), delegate: letTesterIn, identity: "replica",
	}
}

// newRestingSite starts a site in which a workspace is read again only after a hint.
func newRestingSite(t *testing.T) *site {
	t.Helper()
	s := newSite(t, logged)
	s.timing.Batch, s.timing.Round, s.timing.Count = time.Hour, time.Hour, time.Hour
	s.start(t)
	return s
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// patientLease is longer than a busy machine may need for a renewal. The server releases the Lease
// when it ends, so no test waits for its expiry.
const patientLease = 10 * time.Minute

// build creates a server, and returns its listener.
func (s *site) build(t testing.TB) net.Listener {
	t.Helper()
	listener := listen(t)
	opts := NewOptions()
	// The plugin reads the OpenAPI documents of kube-apiserver, which the fake does not have.
	opts.Admission.DisablePlugins = []string{"MutatingAdmissionPolicy"}
	opts.SecureServing.ServerCert.CertKey = s.files
	var err error
	s.server, err = newServer(Config{
		Options: opts, Connections: s.provider, PodNamespace: podNamespace, Listener: listener,
		Identity: s.identity, Clock: s.clock, Metrics: prometheus.NewRegistry(), MirrorTiming: s.timing, Tracing: s.tracing,
		MirrorLease: patientLease, DialAgent: s.agent.Dial,
	}, kube{
		client: s.kube, dynamic: s.untyped,
		informers:  informerFactory{informers.NewSharedInformerFactory(s.kube, resync)},
		delegate:   s.delegate,
		workspaces: s.workspaces, templates: s.templates, users: s.users, sources: s.sources,
	})
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// start runs a server on the site, and waits until it is ready.
func (s *site) start(t testing.TB) {
	t.Helper()
	connect := s.run(t)
	polltest.Eventually(t, "the server is ready", func() error { return s.server.Ready(nil) })
	connect()
}

// run starts a server. Once it serves, connect creates a client of it.
func (s *site) run(t testing.TB) (connect func()) {
	t.Helper()
	listener := s.build(t)
	s.listener = listener
	ctx, cancel := context.WithCancel(log.IntoContext(context.Background(), s.journal.logger()))
	running, ended := s.server, make(chan error, 1)
	go func() { ended <- running.Start(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("stopping the server: %v", err)
			}
		case <-polltest.Context(t).Done():
			t.Error("the server does not stop")
		}
	})
	t.Cleanup(s.stop)
	return func() { s.connect(t, listener) }
}

// restart replaces the running server with a new one, which only has the state in the cluster and
// in Coder.
func (s *site) restart(t testing.TB) {
	t.Helper()
	s.stop()
	s.start(t)
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// connect creates a client that trusts only the CA that was applied.
func (s *site) connect(t testing.TB, listener net.Listener) {
	t.Helper()
	secret, err := s.kube.CoreV1().Secrets(podNamespace).Get(context.Background(), certificates.SecretName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.config = &restclient.Config{
		Host: "https://" + listener.Addr().String(), BearerToken: testToken, QPS: -1,
		TLSClientConfig: restclient.TLSClientConfig{CAData: secret.Data["ca.crt"], ServerName: "coder-k8s-apiserver.coder-system.svc"},
	}
	if s.client, err = dynamic.NewForConfig(s.config); err != nil {
		t.Fatal(err)
	}
}

// personToken is the prefix of the tokens of named callers. Callers named person:... and
// ServiceAccounts may do everything except impersonate. person:author may not promote templates. person:chief may impersonate all users that
// are not Owners, person:king all users.
const personToken = "i-am-"

// letTesterIn replaces the delegation to kube-apiserver: one token may do everything, another may
// get.
func letTesterIn(config *server.Config) ([]authority, error) {
	config.Authentication.Authenticator = authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		switch r.Header.Get("Authorization") {
		case "Bearer " + testToken:
			return &authenticator.Response{User: &user.DefaultInfo{Name: "tester"}}, true, nil
		case "Bearer " + readerToken:
			return &authenticator.Response{User: &user.DefaultInfo{Name: "reader"}}, true, nil
		}
		if name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "+personToken); ok {
			return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, true, nil
		}
		return nil, false, nil
	})
	config.Authorization.Authorizer = authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetUser().GetName() == "reader" && a.GetVerb() == "get" {
			return authorizer.DecisionAllow, "", nil
		}
		if person, ok := strings.CutPrefix(a.GetUser().GetName(), "person:"); ok || strings.HasPrefix(a.GetUser().GetName(), "system:serviceaccount:") {
			if a.GetVerb() == "impersonate" && (person != "chief" || a.GetSubresource() == "owner") && person != "king" &&
				// The warden may impersonate each user by name, but not all users.
				(person != "warden" || a.GetName() == "" || a.GetSubresource() == "owner") {
				return authorizer.DecisionDeny, "no role", nil
			}
			if person == "author" && a.GetSubresource() == "promote" {
				return authorizer.DecisionDeny, "no promoter", nil
			}
			return authorizer.DecisionAllow, "", nil
		}
		if a.GetUser().GetName() != "tester" && a.GetUser().GetName() != user.APIServerUser {
			return authorizer.DecisionDeny, "not the tester", nil
		}
		return authorizer.DecisionAllow, "", nil
	})
	return nil, nil
}

// process is a testing.TB for objects that live longer than one test. It implements only the
// methods that a site uses.
type process struct {
	testing.TB
	mu       sync.Mutex
	cleanups []func()
	failures []string
}

// Helper implements testing.TB.
func (*process) Helper() {}

// Context implements testing.TB.
func (*process) Context() context.Context { return context.Background() }

// Cleanup implements testing.TB.
func (p *process) Cleanup(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleanups = append(p.cleanups, f)
}

// Logf implements testing.TB.
func (*process) Logf(string, ...any) {}

// Error implements testing.TB.
func (p *process) Error(args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures = append(p.failures, fmt.Sprint(args...))
}

// Errorf implements testing.TB.
func (p *process) Errorf(format string, args ...any) { p.Error(fmt.Sprintf(format, args...)) }

// Fatal implements testing.TB.
func (p *process) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// Fatalf implements testing.TB.
func (p *process) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// end runs the cleanups and returns the errors since the beginning.
func (p *process) end() []string {
	p.mu.Lock()
	cleanups := p.cleanups
	p.mu.Unlock()
	for _, f := range slices.Backward(cleanups) {
		f()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failures
}
