package protocol

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/go-logr/logr"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/access"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/quota"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

// firstWithoutSessions is the revision since which the protocol has no sessions.
// Revisions are dates, so they can be compared as text.
const firstWithoutSessions = "2026-07-28"

// Config is what a Server is made of. Every field may be left at its zero value.
type Config struct {
	// Version is that of the process, as clients see it.
	Version string
	// Tools are offered, each to the callers who have its rights. Env is what they
	// need.
	Tools *toolset.Set
	Env   toolset.Env
	// Content adds prompts and resources, and whatever else is no tool of Tools.
	Content func(*mcp.Server)
	// Completion proposes values of arguments; at most 100 of them are sent.
	Completion func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error)
	// Subscriptions watches resources. Without it clients cannot subscribe.
	Subscriptions Subscriptions
	// Access says which tools a caller is shown; without it everybody sees all.
	Access access.Reviewer
	// Metrics counts calls.
	Metrics Metrics
	// Tracing makes the spans of calls. Nil makes none.
	Tracing *tracing.Provider
	// MaxSessions switches on sessions for clients of 2025-11-25, and caps how many
	// there are at a time; one user may have half of them.
	MaxSessions int
	// MaxSessionCallsPerUser caps the requests in sessions that one user has in work at
	// a time; 0 means no cap.
	MaxSessionCallsPerUser int
	// MaxStreamsPerUser caps the streams and subscriptions that one user has open
	// at a time; 0 means no cap.
	MaxStreamsPerUser int
	// ListsChange says that tools, prompts or resources come and go while the server
	// runs, so that clients may wait for that.
	ListsChange bool
	Clock       clock.PassiveClock
	Logger      logr.Logger
}

// Server answers requests of the protocol. It is an http.Handler.
type Server struct {
	config    Config
	limits    limits
	mcp       *mcp.Server
	stateless http.Handler
	// sessions is nil where there are none.
	sessions *sessions
	tools    map[string]toolset.Definition
	rights   []access.Right

	running       running
	streams       *streams
	sessionCalls  *quota.Quota
	subscriptions *subscriptions
}

// New makes a server. Its only errors are mistakes in the tools, prompts and
// resources.
func New(config Config) (*Server, error) { return newServer(config, defaultLimits()) }

func newServer(config Config, limits limits) (*Server, error) {
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	if config.Metrics == nil {
		config.Metrics = noMetrics{}
	}
	s := &Server{config: config, limits: limits, streams: newStreams(config.MaxStreamsPerUser, config.Metrics), sessionCalls: quota.New(config.MaxSessionCallsPerUser)}
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
	// The first one listed is the outermost.
	s.mcp.AddReceivingMiddleware(s.guard, s.identify, s.trace, s.explain, s.audit, s.bound, s.subscribe, s.describe, s.showTools)

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
		// Not nil, which would offer to send the log to clients.
		Capabilities:      &mcp.ServerCapabilities{},
		CompletionHandler: completion(s.config.Completion),
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
	// The gate has bounded the body and checked the Host, on every address.
	options.MaxRequestBodyBytes = -1
	options.DisableLocalhostProtection = true
	options.Logger = newSDKLog(s.config.Logger)
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.mcp }, options)
}

// ServeHTTP implements http.Handler. The request has passed package gate, which
// bounds it, and package identity, without which the handlers have no caller.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The stream of a session ends with the session and not by itself.
	if r.Method != http.MethodGet {
		end, ok := s.running.begin()
		if !ok {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "this server is ending; send the request again, to reach another one", http.StatusServiceUnavailable)
			return
		}
		defer end()
	}
	if r.Method == http.MethodPost && isBatch(r) {
		http.Error(w, "this server takes one message in each request, as the protocol says since 2025-06-18", http.StatusBadRequest)
		return
	}
	if s.sessions == nil || isSessionless(r) {
		s.stateless.ServeHTTP(w, r.WithContext(withConnection(r.Context())))
		return
	}
	s.sessions.ServeHTTP(w, r)
}

// isSessionless says whether a client speaks the protocol without sessions. One
// that does not say which protocol it speaks, but names the method in a header,
// can only be such a one.
func isSessionless(r *http.Request) bool {
	version := r.Header.Get("Mcp-Protocol-Version")
	return version >= firstWithoutSessions ||
		(r.Method == http.MethodPost && version == "" && r.Header.Get("Mcp-Method") != "")
}

// isBatch says whether the body is a list of messages. One request must be one
// call, because that is what is limited and counted.
func isBatch(r *http.Request) bool {
	// Longer reads go past the buffer.
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
			// It cannot fail directly after a read.
			_ = body.UnreadByte()
			return b == '['
		}
	}
}

// OpenSessions is how many sessions there are.
func (s *Server) OpenSessions() int {
	if s.sessions == nil {
		return 0
	}
	return s.sessions.count()
}

// OpenStreams is how many streams and subscriptions there are.
func (s *Server) OpenStreams() int { return s.streams.count() }

// Close refuses further requests, ends streams and subscriptions, each with its
// last message, and then sessions, once their calls are answered. Where that is not
// done when ctx ends, what remains is cancelled and the error of ctx returned.
func (s *Server) Close(ctx context.Context) error {
	s.running.refuse()
	s.streams.close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.running.wait()
		s.endSessions()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		s.running.work.cancel()
		return fmt.Errorf("cancelled calls that did not end in time: %w", ctx.Err())
	}
}

// endSessions ends all at once. The SDK drops the answers to calls that it finds
// unfinished.
func (s *Server) endSessions() {
	var group sync.WaitGroup
	for session := range s.mcp.Sessions() {
		// Without an id it is a single request, which ends by itself.
		if session.ID() != "" {
			group.Go(func() { _ = session.Close() })
		}
	}
	group.Wait()
}
