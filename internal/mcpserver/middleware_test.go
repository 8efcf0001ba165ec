package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/protocol"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

// world is a Middleware with its dependencies.
type world struct {
	middleware *Middleware
	registry   *prometheus.Registry
	metrics    *protocol.Metrics
	logs       *mcptest.LogBuffer
	clock      *clocktesting.FakePassiveClock
}

func (w *world) inFlight() int { return int(testutil.ToFloat64(w.metrics.InFlight)) }

// newWorld creates a Middleware. The token of a caller is the caller's name.
func newWorld(change ...func(*MiddlewareConfig)) *world {
	w := &world{registry: prometheus.NewRegistry(), logs: &mcptest.LogBuffer{}, clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0))}
	var err error
	if w.metrics, err = protocol.NewMetrics(w.registry, nil); err != nil {
		panic(err)
	}
	cfg := MiddlewareConfig{
		Options:   Options{Identity: callers.NewAuthenticationOptions()},
		Namespace: "coder-system", ClusterDomain: "cluster.local",
		Authenticate: byName,
		Metrics:      w.metrics,
		Clock:        w.clock,
		Logger:       w.logs.Logger(),
	}
	for _, c := range change {
		c(&cfg)
	}
	w.middleware = NewMiddleware(cfg)
	return w
}

func byName(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		noteUser(r.Context(), name)
		next.ServeHTTP(w, r.WithContext(request.WithUser(r.Context(), &user.DefaultInfo{Name: name})))
	})
}

// handler returns the complete middleware in front of next.
func (w *world) handler(next http.HandlerFunc) http.Handler {
	return w.middleware.Requests(w.middleware.Calls(next))
}

// ask sends one request to a handler.
func ask(handler http.Handler, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "http://localhost:8090/mcp", strings.NewReader("{}"))
	r.Header.Set("Authorization", "Bearer alice")
	if change != nil {
		change(r)
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, r)
	return recorder
}

func TestTheRequestIDIsTheServersOwn(t *testing.T) {
	w := newWorld()
	var within string
	answered := ask(w.handler(func(_ http.ResponseWriter, r *http.Request) { within = r.Header.Get(tracing.RequestIDHeader) }),
		func(r *http.Request) { r.Header.Set(tracing.RequestIDHeader, "made-up\"") })
	id := answered.Header().Get(tracing.RequestIDHeader)
	if id == "" || id != within || strings.Contains(w.logs.String(), "made-up") {
		t.Errorf("the answer has id %q and the steps within see %q; the log:\n%s", id, within, w.logs)
	}
	if !strings.Contains(w.logs.String(), `"requestID"="`+id+`"`) {
		t.Errorf("the log does not have the id %s:\n%s", id, w.logs)
	}
	if again := ask(w.handler(func(http.ResponseWriter, *http.Request) {}), nil); again.Header().Get(tracing.RequestIDHeader) == id {
		t.Error("two requests have one id")
	}
}

func TestTheAccessLogSaysWhoAndWhatAndNoSecret(t *testing.T) {
	w := newWorld()
	ask(w.handler(func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "no such tea", http.StatusTeapot) }), func(r *http.Request) {
		r.URL.RawQuery = "token=hunter2"
		r.Header.Set("Authorization", "Bearer alice")
		r.Header.Set("X-Secret", "hunter3")
	})
	logs := w.logs.String()
	if !strings.Contains(logs, `"method"="POST" "path"="/mcp" "status"=418 "user"="alice"`) {
		t.Errorf("the log is %s", logs)
	}
	for _, secret := range []string{"hunter", "Bearer"} {
		if strings.Contains(logs, secret) {
			t.Errorf("the log has %q: %s", secret, logs)
		}
	}
	if counted := mcptest.Series(t, w.registry); !slices.Contains(counted, "coder_k8s_mcp_requests_total{code=418,method=POST} 1") {
		t.Errorf("counted %q, want POST 418", counted)
	}
}

func TestAStrangerCannotFillTheLog(t *testing.T) {
	w := newWorld()
	ask(w.handler(func(http.ResponseWriter, *http.Request) {}), func(r *http.Request) {
		r.Header.Del("Authorization")
		r.Method, r.URL.Path = strings.Repeat("M", 50_000), "/"+strings.Repeat("é", 50_000)+"\n\"status\"=200"
	})
	if logs := w.logs.String(); len(logs) > 2000 || strings.Count(logs, "\n") != 1 || !strings.Contains(logs, `é…"`) {
		t.Errorf("the log has %d bytes: %.500s", len(logs), logs)
	}
}

func TestProxiesAreToldNotToBuffer(t *testing.T) {
	answered := ask(newWorld().handler(func(http.ResponseWriter, *http.Request) {}), nil)
	if got := answered.Header().Get("X-Accel-Buffering"); got != "no" {
		t.Errorf("X-Accel-Buffering is %q, want no", got)
	}
}

func TestAPanicIsAnAnswer(t *testing.T) {
	w := newWorld()
	answered := ask(w.handler(func(http.ResponseWriter, *http.Request) { panic("secret detail") }), nil)
	if answered.Code != http.StatusInternalServerError || strings.Contains(answered.Body.String(), "secret detail") {
		t.Errorf("the answer is %d %s", answered.Code, answered.Body)
	}
	if !strings.Contains(w.logs.String(), "secret detail") || !strings.Contains(w.logs.String(), "middleware_test.go") {
		t.Errorf("the log does not say what happened where: %s", w.logs)
	}
	if w.inFlight() != 0 {
		t.Error("the place in flight was not given back")
	}
}

func TestAPanicInTheMiddleOfAnAnswerCutsIt(t *testing.T) {
	w := newWorld()
	server := httptest.NewServer(w.handler(func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(rw, "the first half")
		panic("secret detail")
	}))
	defer server.Close()
	r, _ := http.NewRequest(http.MethodPost, server.URL, nil)
	r.Header.Set("Authorization", "Bearer alice")
	response, err := http.DefaultClient.Do(r)
	if err == nil {
		_, err = io.ReadAll(response.Body)
		response.Body.Close()
	}
	if err == nil {
		t.Error("half of an answer looks like a whole one")
	}
}

func TestAnAbortedAnswerStaysAborted(t *testing.T) {
	w := newWorld()
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
			t.Errorf("the panic became %v", err)
		}
	}()
	ask(w.handler(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), nil)
}

func TestWhatIsPublicHasNoOrigin(t *testing.T) {
	answered := ask(newWorld().middleware.Requests(http.NotFoundHandler()), func(r *http.Request) { r.Header.Set("Origin", "https://evil.example.com") })
	if answered.Code != http.StatusNotFound {
		t.Errorf("the answer is %d; the metadata is for pages of any origin", answered.Code)
	}
}

func TestTheCheapestStepRefuses(t *testing.T) {
	var authenticated int
	w := newWorld(func(c *MiddlewareConfig) {
		c.Authenticate = func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				authenticated++
				byName(next).ServeHTTP(rw, r)
			})
		}
	})
	reached := false
	handler := w.handler(func(http.ResponseWriter, *http.Request) { reached = true })
	tests := map[string]struct {
		change        func(*http.Request)
		status        int
		authenticated int
	}{
		"a foreign host":    {func(r *http.Request) { r.Host = "evil.example.com" }, http.StatusForbidden, 0},
		"a foreign origin":  {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example.com") }, http.StatusForbidden, 0},
		"a body of 1 MiB+1": {func(r *http.Request) { r.ContentLength = maxBodyBytes + 1 }, http.StatusRequestEntityTooLarge, 0},
		"a stranger":        {func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusUnauthorized, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			authenticated, reached = 0, false
			answered := ask(handler, tc.change)
			if answered.Code != tc.status || authenticated != tc.authenticated || reached {
				t.Errorf("the answer is %d after %d authentications, the protocol reached: %v; want %d after %d, not reached",
					answered.Code, authenticated, reached, tc.status, tc.authenticated)
			}
		})
	}
}

func TestABodyThatIsTooLargeEndsAtTheLimit(t *testing.T) {
	tests := map[string]struct {
		size   int
		length bool
		status int
	}{
		"the limit, with its length": {maxBodyBytes, true, http.StatusOK},
		"the limit, in chunks":       {maxBodyBytes, false, http.StatusOK},
		"above, with its length":     {maxBodyBytes + 1, true, http.StatusRequestEntityTooLarge},
		"above, in chunks":           {maxBodyBytes + 1, false, http.StatusRequestEntityTooLarge},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			read := 0
			server := httptest.NewServer(newWorld().handler(func(w http.ResponseWriter, r *http.Request) {
				content, err := io.ReadAll(r.Body)
				read = len(content)
				var tooLarge *http.MaxBytesError
				if errors.As(err, &tooLarge) {
					w.WriteHeader(http.StatusRequestEntityTooLarge)
				}
			}))
			defer server.Close()
			var body io.Reader = strings.NewReader(strings.Repeat(" ", tc.size))
			if !tc.length {
				body = io.MultiReader(body)
			}
			r, _ := http.NewRequest(http.MethodPost, server.URL, body)
			r.Header.Set("Authorization", "Bearer alice")
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if response.StatusCode != tc.status || read > maxBodyBytes {
				t.Errorf("the answer is %d after %d bytes, want %d", response.StatusCode, read, tc.status)
			}
		})
	}
}

// deadlines is a response writer that records deadlines.
type deadlines struct {
	*httptest.ResponseRecorder
	mu    sync.Mutex
	read  []time.Time
	write []time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.read = append(d.read, at)
	return nil
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.write = append(d.write, at)
	return nil
}

func (d *deadlines) lastWrite() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.write[len(d.write)-1]
}

func TestABodyHasItsTimeAndNoMore(t *testing.T) {
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	limited(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body) })).
		ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}")))
	if len(w.read) < 2 || time.Until(w.read[0]) > bodyReadTimeout || w.read[0].IsZero() {
		t.Fatalf("the deadlines are %v, want one within %s and then none", w.read, bodyReadTimeout)
	}
	if last := w.read[len(w.read)-1]; !last.IsZero() {
		t.Errorf("the deadline %s stays after the body was read, and net/http takes it for the client going away", last)
	}
}

func TestAStreamHasNoReadDeadline(t *testing.T) {
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	limited(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	if len(w.read) != 0 {
		t.Errorf("a request without a body got the deadlines %v", w.read)
	}
}

// failing is a body whose connection fails.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
func (f failing) Close() error             { return nil }

func TestErrorsOfABodyNameNoAddress(t *testing.T) {
	address := &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 8090}
	for name, tc := range map[string]struct {
		err  error
		want error
	}{
		"too slow":      {&net.OpError{Op: "read", Net: "tcp", Source: address, Err: os.ErrDeadlineExceeded}, errSlowBody},
		"is incomplete": {&net.OpError{Op: "read", Net: "tcp", Source: address, Err: io.ErrUnexpectedEOF}, errBrokenBody},
	} {
		t.Run(name, func(t *testing.T) {
			var got error
			r := httptest.NewRequest(http.MethodPost, "/", failing{tc.err})
			limited(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, got = io.ReadAll(r.Body) })).
				ServeHTTP(httptest.NewRecorder(), r)
			if !errors.Is(got, tc.want) || strings.Contains(got.Error(), "10.1.2.3") {
				t.Errorf("the error is %v, want %v", got, tc.want)
			}
		})
	}
}

// TestSilentCallsAreKeptAlive calls a tool that takes 29 seconds, from clients that do not ask for progress.
func TestSilentCallsAreKeptAlive(t *testing.T) {
	for _, version := range eras {
		for name, tc := range map[string]struct {
			err  error
			want string
		}{
			"a result": {nil, `"text":"done"`},
			"an error": {&jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no"}, `"message":"no"`},
		} {
			t.Run(version+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld()
					config := protocol.Config{Metrics: w.metrics, Content: func(server *mcp.Server) {
						server.AddTool(&mcp.Tool{Name: "slow", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
							<-time.After(29 * time.Second)
							return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, tc.err
						})
					}}
					server, err := protocol.New(config)
					if err != nil {
						t.Fatal(err)
					}
					answered := ask(w.handler(server.ServeHTTP), func(r *http.Request) {
						r.Header.Set("Content-Type", "application/json")
						r.Header.Set("Accept", "application/json, text/event-stream")
						r.Header.Set("Mcp-Protocol-Version", version)
						r.Header.Set("Mcp-Method", "tools/call")
						r.Header.Set("Mcp-Name", "slow")
						r.Body = io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{},` +
							`"_meta":{"io.modelcontextprotocol/protocolVersion":"` + version + `","io.modelcontextprotocol/clientCapabilities":{}}}}`))
					})
					got := answered.Body.String()
					events := strings.TrimPrefix(got, keepAlive)
					if len(events) == len(got) || !strings.HasPrefix(events, "event: message\ndata: {") || !strings.HasSuffix(events, "}\n\n") || !strings.Contains(events, tc.want) {
						t.Errorf("the answer is %d %q", answered.Code, got)
					}
				})
			})
		}
	}
}
