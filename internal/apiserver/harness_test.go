package apiserver

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	restclient "k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/certificates"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata/metadatatest"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectlog"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

const (
	testNamespace    = "coder"
	testToken        = "let-me-in"
	podNamespace     = "coder-system"
	mainTF           = "main.tf"
	convergeDeadline = 20 * time.Second
)

var (
	workspacesGVR = schema.GroupVersionResource{Group: "aggregation.coder.com", Version: "v1alpha1", Resource: "coderworkspaces"}
	templatesGVR  = schema.GroupVersionResource{Group: "aggregation.coder.com", Version: "v1alpha1", Resource: "codertemplates"}
)

// provider is a set of control planes whose state the test decides.
type provider struct {
	connections []connections.Connection
	// unavailable are namespaces whose control plane is not ready.
	unavailable []string
}

func (p *provider) ForNamespace(_ context.Context, namespace string) ([]connections.Connection, error) {
	return p.some(func(n string) bool { return n == namespace })
}

func (p *provider) All(context.Context) ([]connections.Connection, error) {
	return p.some(func(string) bool { return true })
}

// Members implements connections.Provider.
func (p *provider) Members(context.Context) ([]connections.Member, error) {
	var out []connections.Member
	for i := range p.connections {
		c := &p.connections[i]
		out = append(out, connections.Member{
			ControlPlane: c.ControlPlane, UID: types.UID(c.ControlPlane.String()), NamePrefix: c.NamePrefix, Named: true, Connection: c,
		})
	}
	for _, n := range p.unavailable {
		out = append(out, connections.Member{
			ControlPlane: types.NamespacedName{Namespace: n, Name: "coder"}, UID: types.UID(n), Named: true, Reason: "the operator has no token yet",
		})
	}
	return out, nil
}

// Serves implements Connections.
func (p *provider) Serves(_ context.Context, namespace string) (bool, error) {
	found, err := p.ForNamespace(context.Background(), namespace)
	return len(found) > 0 || err != nil, nil
}

func (p *provider) some(want func(string) bool) ([]connections.Connection, error) {
	var out []connections.Connection
	for _, c := range p.connections {
		if want(c.ControlPlane.Namespace) {
			out = append(out, c)
		}
	}
	missing := &connections.UnavailableError{RetryAfter: 3 * time.Second}
	for _, n := range p.unavailable {
		if want(n) {
			missing.ControlPlanes = append(missing.ControlPlanes, n+"/coder: the operator has no token yet")
		}
	}
	if len(missing.ControlPlanes) > 0 {
		return out, missing
	}
	return out, nil
}

// fixture is a running aggregated API server over a fake Coder.
type fixture struct {
	coder    *coderdtest.Server
	template uuid.UUID
	kube     *fake.Clientset
	provider *provider
	server   *Server
	config   *restclient.Config
	client   dynamic.Interface
}

// newFixture starts a server that serves one Coder, with user ada and template
// starter, in namespace coder. Further namespaces exist: empty, pending (its
// control plane is not ready) and second.
func newFixture(t *testing.T, options ...coderdtest.Option) *fixture {
	t.Helper()
	// A server takes a second to say goodbye to its HTTP/2 clients.
	t.Parallel()
	return startFixture(t, options...)
}

// startFixture is newFixture for benchmarks too.
func startFixture(t testing.TB, options ...coderdtest.Option) *fixture {
	t.Helper()
	f := &fixture{coder: coderdtest.New(t, options...)}
	token := f.coder.AddUser("operator", "owner")
	f.coder.AddUser("ada", "member")
	f.template = f.coder.AddTemplate("coder", "starter", map[string]string{mainTF: "# one"})
	client, err := coderd.New(coderd.Config{URL: f.coder.URL, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	f.provider = &provider{
		connections: []connections.Connection{{ControlPlane: types.NamespacedName{Namespace: testNamespace, Name: "coder"}, Client: client}},
		unavailable: []string{},
	}
	f.kube = fake.NewClientset(namespace(testNamespace), namespace("empty"), namespace("pending"), namespace("second"))
	f.start(t)
	f.coder.ResetRequests()
	return f
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func (f *fixture) start(t testing.TB) {
	t.Helper()
	listener, peers := listen(t), listen(t)
	objects := runtime.NewScheme()
	untyped := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(objects, map[schema.GroupVersionResource]string{
		certificates.APIServices: "APIServiceList",
	})
	options := NewOptions()
	// It reads the OpenAPI of kube-apiserver, which the fake does not have.
	options.Admission.DisablePlugins = []string{"MutatingAdmissionPolicy"}
	var err error
	f.server, err = newServer(Config{
		Options: options, Connections: f.provider, PodNamespace: podNamespace, Listener: listener,
		Identity: "replica", PeerListener: peers, Metrics: prometheus.NewRegistry(),
	}, kube{
		client: f.kube, dynamic: untyped,
		informers: informers.NewSharedInformerFactory(f.kube, 0),
		delegate:  letTesterIn,
		records:   metadatatest.New(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(log.IntoContext(t.Context(), testr.NewWithInterface(t, testr.Options{})))
	ended := make(chan error, 1)
	go func() { ended <- f.server.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("stopping the server: %v", err)
			}
		case <-time.After(8 * time.Second):
			t.Error("the server does not stop")
		}
	})
	eventually(t, func() error { return f.server.Ready(nil) })
	f.connect(t, listener)
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// TestMain tells the library once what the storage can do.
func TestMain(m *testing.M) {
	objectlog.EnableWatchProgress()
	os.Exit(m.Run())
}

// connect makes a client that trusts nothing but the CA that was applied.
func (f *fixture) connect(t testing.TB, listener net.Listener) {
	t.Helper()
	secret, err := f.kube.CoreV1().Secrets(podNamespace).Get(t.Context(), certificates.SecretName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.config = &restclient.Config{
		Host: "https://" + listener.Addr().String(), BearerToken: testToken, QPS: 1000, Burst: 1000,
		TLSClientConfig: restclient.TLSClientConfig{CAData: secret.Data["ca.crt"], ServerName: "coder-k8s-apiserver.coder-system.svc"},
	}
	if f.client, err = dynamic.NewForConfig(f.config); err != nil {
		t.Fatal(err)
	}
}

// letTesterIn stands in for kube-apiserver: one token is known, and may do all.
func letTesterIn(config *server.Config) error {
	config.Authentication.Authenticator = authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		if r.Header.Get("Authorization") != "Bearer "+testToken {
			return nil, false, nil
		}
		return &authenticator.Response{User: &user.DefaultInfo{Name: "tester"}}, true, nil
	})
	config.Authorization.Authorizer = authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetUser().GetName() != "tester" && a.GetUser().GetName() != user.APIServerUser {
			return authorizer.DecisionDeny, "not the tester", nil
		}
		return authorizer.DecisionAllow, "", nil
	})
	return nil
}

func (f *fixture) workspaces(namespace string) dynamic.ResourceInterface {
	return f.client.Resource(workspacesGVR).Namespace(namespace)
}

func (f *fixture) templates(namespace string) dynamic.ResourceInterface {
	return f.client.Resource(templatesGVR).Namespace(namespace)
}

// answer is what came of a plain HTTP request.
type answer struct {
	status int
	header http.Header
	body   string
}

// do makes a request that the typed clients would not make, or whose headers
// they hide.
func (f *fixture) do(t *testing.T, method, path string, header map[string]string, body string) answer {
	t.Helper()
	client, err := restclient.HTTPClientFor(f.config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, f.config.Host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range header {
		request.Header.Set(key, value)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(content)}
}

func workspaceObject(name string, spec map[string]any) *unstructured.Unstructured {
	return object("CoderWorkspace", name, spec)
}

func templateObject(name string, spec map[string]any) *unstructured.Unstructured {
	return object("CoderTemplate", name, spec)
}

func object(kind, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": workspacesGVR.GroupVersion().String(), "kind": kind,
		"metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

// at reads a field as text.
func at(obj *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedFieldNoCopy(obj.Object, path...)
	return text(value)
}

// condition gives status and reason of a condition.
func condition(obj *unstructured.Unstructured, kind string) string {
	all, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range all {
		if entry, ok := c.(map[string]any); ok && entry["type"] == kind {
			return text(entry["status"]) + " " + text(entry["reason"])
		}
	}
	return "absent"
}

// eventually waits until check is content.
func eventually(t testing.TB, check func() error) {
	t.Helper()
	deadline := time.Now().Add(convergeDeadline)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %v", convergeDeadline, err)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
