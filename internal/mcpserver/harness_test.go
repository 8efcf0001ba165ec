package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

const (
	ownToken   = "token-of-the-server"
	aliceToken = "token-of-alice"
	robotToken = "token-of-robot"
	// testTimeout is far above what anything here takes.
	testTimeout = 20 * time.Second
)

// kubeAPI stands for the API server, as the client that acts for callers sees it.
type kubeAPI struct {
	*httptest.Server
	mu       sync.Mutex
	seen     []*http.Request
	handlers map[string]http.HandlerFunc
}

func newKubeAPI(t *testing.T) *kubeAPI {
	t.Helper()
	k := &kubeAPI{handlers: map[string]http.HandlerFunc{}}
	k.handle("GET /version", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, `{"major":"1"}`) })
	k.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.mu.Lock()
		k.seen = append(k.seen, r)
		handler := k.handlers[r.Method+" "+r.URL.Path]
		k.mu.Unlock()
		if handler == nil {
			http.NotFound(w, r)
			return
		}
		handler(w, r)
	}))
	t.Cleanup(k.Close)
	return k
}

func (k *kubeAPI) handle(methodAndPath string, handler http.HandlerFunc) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.handlers[methodAndPath] = handler
}

func (k *kubeAPI) answer(methodAndPath string, status int, body any) {
	k.handle(methodAndPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	})
}

func (k *kubeAPI) requests(path string) []*http.Request {
	k.mu.Lock()
	defer k.mu.Unlock()
	var found []*http.Request
	for _, r := range k.seen {
		if r.URL.Path == path {
			found = append(found, r)
		}
	}
	return found
}

// people is the fake of TokenReview and SubjectAccessReview.
type people struct {
	mu sync.Mutex
	// users by token.
	users map[string]authenticationv1.UserInfo
	// audiences by token; the right one unless set.
	audiences map[string][]string
	entry     map[string]bool
	down      bool
	reviews   int
	accesses  int
	lastSpec  authorizationv1.SubjectAccessReviewSpec
}

func newPeople() *people {
	return &people{
		users: map[string]authenticationv1.UserInfo{
			aliceToken: {Username: "alice", UID: "1", Groups: []string{"platform", "system:authenticated"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}},
			robotToken: {Username: "system:serviceaccount:ns:robot", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"}},
		},
		audiences: map[string][]string{},
		entry:     map[string]bool{"alice": true, "system:serviceaccount:ns:robot": true},
	}
}

func (p *people) clientset() *fake.Clientset {
	kube := fake.NewClientset()
	kube.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.reviews++
		if p.down {
			return true, nil, &net.OpError{Op: "dial", Err: io.ErrUnexpectedEOF}
		}
		review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		info, ok := p.users[review.Spec.Token]
		audiences, set := p.audiences[review.Spec.Token]
		if !set {
			audiences = review.Spec.Audiences
		}
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: ok, User: info, Audiences: audiences}
		return true, review, nil
	})
	kube.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.accesses++
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		p.lastSpec = review.Spec
		review.Status.Allowed = p.entry[review.Spec.User]
		return true, review, nil
	})
	return kube
}

func (p *people) set(change func(*people)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// logBuffer collects everything that is logged, at any level.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		fmt.Fprintln(&l.buf, prefix, args)
	}, funcr.Options{Verbosity: 10})
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

type harness struct {
	server *Server
	kube   *kubeAPI
	people *people
	logs   *logBuffer
	url    string
	// stop ends the server, as the end of the process does, and gives what Start
	// returned.
	stop func() error
}

func testScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{coderv1alpha1.AddToScheme, aggregationv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

func testMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Group: "coder.com", Version: "v1alpha1", Kind: "CoderControlPlane"}, meta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersionKind{Group: "aggregation.coder.com", Version: "v1alpha1", Kind: "CoderWorkspace"}, meta.RESTScopeNamespace)
	return mapper
}

// newHarness prepares a server that does not run yet.
func newHarness(t *testing.T, change ...func(*Config)) *harness {
	t.Helper()
	h := &harness{kube: newKubeAPI(t), people: newPeople(), logs: &logBuffer{}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	cfg := Config{
		Options:    *NewOptions(),
		RESTConfig: &rest.Config{Host: h.kube.URL, BearerToken: ownToken},
		Scheme:     testScheme(t),
		Mapper:     testMapper(),
		Namespace:  "coder-system",
		Version:    "v1.2.3",
		Logger:     h.logs.logger(),
		Kube:       h.people.clientset(),
		Listener:   listener,
	}
	for _, c := range change {
		c(&cfg)
	}
	if h.server, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	h.url = "http://" + listener.Addr().String() + mcpPath
	return h
}

// start runs the server until the test ends or stop is called.
func (h *harness) start(t *testing.T) *harness {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.server.Start(ctx) }()
	var once sync.Once
	var result error
	h.stop = func() error {
		once.Do(func() {
			cancel()
			select {
			case result = <-ended:
			case <-time.After(testTimeout):
				result = fmt.Errorf("the server did not end within %s", testTimeout)
			}
		})
		return result
	}
	t.Cleanup(func() {
		if err := h.stop(); err != nil {
			t.Errorf("Start returned %v", err)
		}
	})
	eventually(t, "the server listens", func() bool { return h.server.serving.Load() })
	return h
}

func running(t *testing.T, change ...func(*Config)) *harness {
	t.Helper()
	return newHarness(t, change...).start(t)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(testTimeout)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("waited %s in vain until %s", testTimeout, what)
		case <-tick.C:
		}
	}
}

// withToken adds a bearer token to each request.
type withToken struct{ token string }

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+w.token)
	return http.DefaultTransport.RoundTrip(r)
}

// connect opens a session as a client of one era does.
func (h *harness) connect(t *testing.T, era, token string) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "v0"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint:   h.url,
		HTTPClient: &http.Client{Transport: withToken{token}},
		MaxRetries: -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: era})
	if err != nil {
		t.Fatalf("connecting with %s: %v", era, err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

func call(ctx context.Context, t *testing.T, session *mcp.ClientSession, tool string, args map[string]any) *mcp.CallToolResult {
	t.Helper()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("calling %s: %v", tool, err)
	}
	return result
}

func text(result *mcp.CallToolResult) string {
	var parts []string
	for _, content := range result.Content {
		if c, ok := content.(*mcp.TextContent); ok {
			parts = append(parts, c.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// callBody is a call of a tool as an old client without a session sends it.
func callBody(tool, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, args)
}

// post sends one raw request.
func (h *harness) post(t *testing.T, body io.Reader, change func(*http.Request)) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+aliceToken)
	if change != nil {
		change(r)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(answer)
}
