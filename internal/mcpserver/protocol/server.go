package protocol

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

const (
	versionHeader = "Mcp-Protocol-Version"
	methodHeader  = "Mcp-Method"
	// firstWithoutSessions is the first protocol revision without sessions. Revisions are
	// dates, so they can be compared as strings.
	firstWithoutSessions = "2026-07-28"
)

// Config configures a Server. All fields but Metrics are optional.
type Config struct {
	// Version is the version of the process that clients see.
	Version string
	// Tools are the tools that are offered, each to the callers with the permissions for
	// it. Env contains their dependencies.
	Tools *toolset.Set
	Env   toolset.Env
	// Content adds prompts, resources and further tools to the MCP server.
	Content func(*mcp.Server)
	// Completion returns completions of arguments, at most the 100 that the protocol allows.
	Completion func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error)
	// Subscriptions watches resources. If it is nil, clients cannot subscribe.
	Subscriptions Subscriptions
	// Lacks returns the permissions that the caller in the context lacks, which decide which
	// tools the caller sees. If it is nil, every caller sees all tools.
	Lacks func(ctx context.Context, rights []callers.Right) map[callers.Right]bool
	// Metrics counts calls, sessions and streams.
	Metrics *Metrics
	// Tracing creates the spans of calls. If it is nil, there are none.
	Tracing *tracing.Provider
	// MaxSessions enables sessions for clients of 2025-11-25 and limits their number. One
	// user may have half of them.
	MaxSessions int
	// MaxSessionCallsPerUser limits one user's running requests in sessions; 0 means no
	// limit.
	MaxSessionCallsPerUser int
	// MaxStreamsPerUser limits one user's open streams and subscriptions; 0 means no limit.
	MaxStreamsPerUser int
	// ListsChange reports that the lists of tools, prompts and resources can change while
	// the server runs, so that clients can subscribe to changes.
	ListsChange bool
	Clock       clock.PassiveClock
	Logger      logr.Logger
}

// limits are fixed for every server, except in tests.
type limits struct {
	call, answer, sessionIdle, stream, lastMessage, coalesce time.Duration
	urisPerStream, pageSize                                  int
}

func defaultLimits() limits {
	return limits{
		// The time limit of a request, without the time for which a tool waits.
		call: 30 * time.Second,
		// The time that the client's user has to answer a question.
		answer: 5 * time.Minute,
		// The time without a request after which a session ends.
		sessionIdle: 5 * time.Minute,
		// The maximum duration of a stream or a subscription. Package callers ends every
		// request after an hour.
		stream: 59 * time.Minute,
		// How long before the expiry of its token a stream ends.
		lastMessage: time.Second,
		// The period in which changes of a resource are combined into one notification.
		coalesce: 250 * time.Millisecond,
		// The maximum number of resources in one stream, and of items in a list.
		urisPerStream: 16, pageSize: 100,
	}
}

// Server answers requests of the protocol. It is an http.Handler.
type Server struct {
	config    Config
	limits    limits
	mcp       *mcp.Server
	stateless http.Handler
	// sessions is nil if sessions are disabled.
	sessions *sessions
	tools    map[string]toolset.Definition
	rights   []callers.Right
	// writers are the response writers of the requests that are being answered, by their IDs.
	writers sync.Map

	running       running
	stopper       stopper
	streams       *streams
	sessionCalls  *callers.Quota
	subscriptions *subscriptions
}

// New creates a server. It returns an error only if tools, prompts or resources are
// invalid.
func New(config Config) (*Server, error) { return newServer(config, defaultLimits()) }

func newServer(config Config, limits limits) (*Server, error) {
	config.Clock = cmp.Or[clock.PassiveClock](config.Clock, clock.RealClock{})
	s := &Server{
		config: config, limits: limits, stopper: newStopper(),
		streams:      newStreams(config.MaxStreamsPerUser, config.Metrics),
		sessionCalls: callers.NewQuota(config.MaxSessionCallsPerUser, 0),
	}
	s.mcp = mcp.NewServer(&mcp.Implementation{
		Name:       "coder-k8s",
		Title:      "Coder on Kubernetes",
		Version:    config.Version,
		WebsiteURL: "https://github.com/coder-k8s/coder-k8s",
	}, s.options())
	s.subscriptions = newSubscriptions(s)
	if config.Tools != nil {
		config.Tools.Register(s.mcp, config.Env)
		s.tools, s.rights = definitions(config.Tools)
	}
	if config.Content != nil {
		config.Content(s.mcp)
	}
	// The first middleware is the outermost.
	s.mcp.AddReceivingMiddleware(s.guard, s.identify, s.trace, s.explain, s.audit, s.bound, s.extend)

	s.stateless = s.transport(&mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})
	if config.MaxSessions > 0 {
		s.sessions = newSessions(s, s.transport(&mcp.StreamableHTTPOptions{SessionTimeout: limits.sessionIdle}))
	}
	return s, nil
}

func (s *Server) options() *mcp.ServerOptions {
	options := &mcp.ServerOptions{
		Instructions: Instructions,
		Logger:       newSDKLog(s.config.Logger),
		PageSize:     s.limits.pageSize,
		// If this were nil, the SDK would advertise the logging capability.
		Capabilities:      &mcp.ServerCapabilities{},
		CompletionHandler: s.config.Completion,
		SetCacheable:      setCacheable,
	}
	if !s.config.ListsChange {
		options.Capabilities.Tools = &mcp.ToolCapabilities{}
		options.Capabilities.Prompts = &mcp.PromptCapabilities{}
		options.Capabilities.Resources = &mcp.ResourceCapabilities{Subscribe: s.config.Subscriptions != nil}
	}
	if s.config.Subscriptions != nil {
		options.SubscribeHandler = acceptSubscription
		options.UnsubscribeHandler = func(context.Context, *mcp.UnsubscribeRequest) error { return nil }
	}
	return options
}

func (s *Server) transport(options *mcp.StreamableHTTPOptions) http.Handler {
	// The HTTP middleware has already limited the body and checked the Host header.
	options.MaxRequestBodyBytes = -1
	options.DisableLocalhostProtection = true
	options.Logger = newSDKLog(s.config.Logger)
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.mcp }, options)
}

// ServeHTTP implements http.Handler. Requests come through the HTTP middleware, which
// limits them, and callers.Authenticator, which authenticates the caller.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The stream of a session ends with the session, so Close must not wait for it here.
	if r.Method != http.MethodGet {
		if !s.running.begin() {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "this replica is stopping; send the request again, to reach another replica", http.StatusServiceUnavailable)
			return
		}
		defer s.running.requests.Done()
	}
	if r.Method == http.MethodPost && isBatch(r) {
		http.Error(w, "this server accepts one message in each request, as the protocol requires since 2025-06-18", http.StatusBadRequest)
		return
	}
	id := r.Header.Get(tracing.RequestIDHeader)
	s.writers.Store(id, w)
	defer s.writers.Delete(id)
	if s.sessions == nil || isSessionless(r) {
		s.stateless.ServeHTTP(w, r.WithContext(withConnection(r.Context())))
		return
	}
	s.sessions.ServeHTTP(w, r)
}

// isSessionless reports whether the client uses a protocol revision without sessions. A
// client that sends no revision but names the method in a header must be such a client.
func isSessionless(r *http.Request) bool {
	version := r.Header.Get(versionHeader)
	return version >= firstWithoutSessions ||
		(r.Method == http.MethodPost && version == "" && r.Header.Get(methodHeader) != "")
}

// OpensStream reports whether the request opens a stream. A stream stays open for as long as
// the client wants and does no work meanwhile. The SDK rejects a request whose body does not
// match its headers.
func OpensStream(r *http.Request) bool {
	return r.Method == http.MethodGet ||
		(r.Header.Get(versionHeader) >= firstWithoutSessions && r.Header.Get(methodHeader) == methodListen)
}

// isBatch reports whether the body is a JSON array of messages. Each request must be a
// single call, because limits and metrics count requests.
func isBatch(r *http.Request) bool {
	// Longer reads bypass the buffer.
	body := bufio.NewReaderSize(r.Body, 16)
	r.Body = struct {
		io.Reader
		io.Closer
	}{body, r.Body}
	for {
		switch b, err := body.ReadByte(); {
		case err != nil:
			return false
		case b != ' ' && b != '\t' && b != '\r' && b != '\n':
			// UnreadByte cannot fail directly after a read.
			_ = body.UnreadByte()
			return b == '['
		}
	}
}

// Close rejects further requests, ends streams and subscriptions with their last message,
// and ends sessions once their calls are answered. If ctx ends first, it cancels the
// remaining calls and returns the error of ctx.
func (s *Server) Close(ctx context.Context) error {
	s.running.refuse()
	s.streams.close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.running.requests.Wait()
		s.endSessions()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		s.stopper.stop()
		return fmt.Errorf("cancelled calls that did not end in time: %w", ctx.Err())
	}
}

// running counts the HTTP requests that are being answered. In a session, the work can
// outlive its request.
type running struct {
	mu       sync.Mutex
	refusing bool
	// requests may be waited for only after refuse.
	requests sync.WaitGroup
}

// begin adds a request. It returns false once the server shuts down.
func (r *running) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.refusing {
		r.requests.Add(1)
	}
	return !r.refusing
}

func (r *running) refuse() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusing = true
}

// stopper cancels work that is still running when the server stops.
type stopper struct {
	stop context.CancelFunc
	// onStop calls cancel in its own goroutine after stop, also if stop was called before,
	// unless forget is called first.
	onStop func(cancel func()) (forget func() bool)
}

func newStopper() stopper {
	ctx, stop := context.WithCancel(context.Background())
	return stopper{stop, func(cancel func()) func() bool { return context.AfterFunc(ctx, cancel) }}
}
