package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const (
	legacyProtocol = mcptest.Legacy
	modernProtocol = mcptest.Modern
)

var eras = []string{legacyProtocol, modernProtocol}

func TestMain(m *testing.M) {
	// controller-runtime's clients require a logger. Each harness has its own log buffer.
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

type harness struct {
	server *Server
	kube   *kubeAPI
	logs   *mcptest.LogBuffer
	url    string
	// stop shuts the server down and returns the error of Start.
	stop func() error
}

func testScheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, coderv1alpha1.AddToScheme, aggregationv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

func testMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []schema.GroupVersionKind{
		coderv1alpha1.GroupVersion.WithKind("CoderControlPlane"),
		aggregationv1alpha1.GroupVersion.WithKind("CoderWorkspace"),
	} {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	return mapper
}

// newHarness creates a server without starting it.
func newHarness(t testing.TB, change ...func(*Config)) *harness {
	t.Helper()
	return newReplica(t, newKubeAPI(t), change...)
}

// newReplica creates a server for the given fake API server without starting it.
func newReplica(t testing.TB, kube *kubeAPI, change ...func(*Config)) *harness {
	t.Helper()
	h := &harness{kube: kube, logs: &mcptest.LogBuffer{}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	cfg := Config{
		Options:       *NewOptions(),
		RESTConfig:    &rest.Config{Host: kube.URL, BearerToken: ownToken, ContentConfig: rest.ContentConfig{ContentType: "application/json"}},
		Scheme:        testScheme(t),
		Mapper:        testMapper(),
		Namespace:     "coder-system",
		ClusterDomain: "cluster.local",
		Version:       "v1.2.3",
		Logger:        h.logs.Logger(),
		Listener:      listener,
	}
	cfg.Options.RateLimit = 0
	for _, c := range change {
		c(&cfg)
	}
	if h.server, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	h.server.check = polltest.Timeout()
	h.url = "http://" + listener.Addr().String() + callers.MCPPath
	return h
}

// start runs the server until the test ends or stop is called.
func (h *harness) start(t testing.TB) *harness {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.server.Start(ctx) }()
	h.stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-polltest.Context(t).Done():
			return errors.New("the server did not end")
		}
	})
	t.Cleanup(func() {
		if err := h.stop(); err != nil {
			t.Errorf("Start returned %v", err)
		}
	})
	polltest.Eventually(t, "the server listens", func() bool { return h.server.serving.Load() })
	return h
}

func running(t testing.TB, change ...func(*Config)) *harness {
	t.Helper()
	return newHarness(t, change...).start(t)
}

func await(t testing.TB, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-polltest.Context(t).Done():
		t.Fatalf("waited in vain until %s", what)
	}
}

// connect connects a client that uses the given protocol revision.
func (h *harness) connect(t testing.TB, protocol, token string) *mcptest.Client {
	t.Helper()
	return dial(t, h.url, protocol, token, nil)
}

// dial connects a client, which has a stream of its own.
func dial(t testing.TB, url, protocol, token string, options *mcp.ClientOptions) *mcptest.Client {
	t.Helper()
	return mcptest.Endpoint{URL: url, Protocol: protocol, Token: token, Options: cmp.Or(options, &mcp.ClientOptions{})}.Dial(t)
}

// callBody returns the body of a tool call by an older client without a session.
func callBody(tool, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, args)
}

// request returns an HTTP request with this body to the MCP endpoint.
func (h *harness) request(ctx context.Context, body string) *http.Request {
	r, err := mcptest.Message{Token: aliceToken, Body: body}.Request(ctx, h.url)
	if err != nil {
		panic(err)
	}
	return r
}

// post sends one HTTP request and returns the response, also one that breaks off.
func (h *harness) post(t testing.TB, body string, change func(*http.Request)) (*http.Response, string) {
	t.Helper()
	r := h.request(t.Context(), body)
	if change != nil {
		change(r)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	return response, string(answer)
}
