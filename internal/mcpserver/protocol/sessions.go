package protocol

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
)

// sessionHeader is the header with the session's ID.
const sessionHeader = "Mcp-Session-Id"

// sessions counts the sessions of clients of 2025-11-25 and before. The SDK keeps the
// sessions, and ensures that only the user who began a session uses it.
type sessions struct {
	server *Server
	// next is the SDK's handler.
	next http.Handler
	// places counts the sessions, and the requests that may begin one.
	places *callers.Quota
}

func newSessions(server *Server, next http.Handler) *sessions {
	most := server.config.MaxSessions
	// A user may have half of all places, so that one user cannot exhaust them.
	return &sessions{server: server, next: next, places: callers.NewQuota(max(1, most/2), most)}
}

func (s *sessions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user := ""
	info := auth.TokenInfoFromContext(r.Context())
	if info != nil {
		user = info.UserID
	}
	switch {
	case r.Method == http.MethodGet:
		s.serveStream(w, r, user, info)
	case r.Method == http.MethodPost && r.Header.Get(sessionHeader) == "":
		s.serveFirst(w, r, user)
	default:
		s.next.ServeHTTP(w, r)
	}
}

// serveStream serves the stream on which the client of a session gets messages other than
// responses. It ends when the token expires or the session ends.
func (s *sessions) serveStream(w http.ResponseWriter, r *http.Request, user string, info *auth.TokenInfo) {
	leave, err := s.server.streams.take(user)
	switch {
	case errors.Is(err, errEnding):
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	case err != nil:
		w.Header().Set("Retry-After", "60")
		http.Error(w, err.Error(), http.StatusTooManyRequests)
		return
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), s.server.life(expiryOf(info)))
	defer cancel()
	s.next.ServeHTTP(w, r.WithContext(ctx))
}

// serveFirst serves a request without a session, which may begin one.
func (s *sessions) serveFirst(w http.ResponseWriter, r *http.Request, user string) {
	leave, status, why := s.admit(user)
	if status != http.StatusOK {
		w.Header().Set("Retry-After", "60")
		http.Error(w, why, status)
		return
	}
	p := &place{leave: leave}
	defer func() {
		if !p.taken.Swap(true) {
			leave()
		}
	}()
	s.next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), placeKey{}, p)))
}

// place is counted for a session that may begin. The session takes it over, so that the two
// are never counted both: a client that has its response may send the next request before
// this one ends.
type place struct {
	leave func()
	// taken is set by the session, or at the end of the request if no session began.
	taken atomic.Bool
}

type placeKey struct{}

// admit reserves a place for a session that may begin, until leave is called.
func (s *sessions) admit(user string) (leave func(), status int, why string) {
	leave, ok := s.places.Begin(user)
	most, idle := s.server.config.MaxSessions, s.server.limits.sessionIdle
	switch {
	case ok:
		return leave, http.StatusOK, ""
	case s.places.Total() >= most:
		return nil, http.StatusServiceUnavailable, fmt.Sprintf("all %d sessions of this server are in use; those that are not used end after %s: try again later, or use protocol version %s, which needs none", most, idle, firstWithoutSessions)
	default:
		return nil, http.StatusTooManyRequests, fmt.Sprintf("user %q already has %d sessions, which is the maximum; end one with DELETE, or wait until those that are not used end after %s", user, s.places.PerUser(), idle)
	}
}

// began counts a session until it ends, for any reason. ctx is the context of the request
// that began it.
func (s *sessions) began(ctx context.Context, session *mcp.ServerSession, user string) {
	var leave func()
	if p, ok := ctx.Value(placeKey{}).(*place); ok && !p.taken.Swap(true) {
		leave = p.leave
	} else {
		// The request has ended before, and its place was released.
		leave = s.places.Add(user)
	}
	s.server.config.Metrics.Sessions.Inc()
	go func() {
		// The error is the reason why the session ended.
		_ = session.Wait()
		leave()
		s.server.config.Metrics.Sessions.Dec()
	}()
}

// describe completes the response to initialize. With a session, it starts to count the
// session. Without one, it removes the capability to subscribe, because notifications could
// not be delivered.
func (s *Server) describe(ctx context.Context, req mcp.Request, initialized *mcp.InitializeResult) {
	if inSession(req) {
		s.sessions.began(ctx, req.GetSession().(*mcp.ServerSession), callers.NameOf(ctx))
	} else if resources := initialized.Capabilities.Resources; resources != nil {
		// The capabilities belong to this response alone.
		resources.Subscribe = false
	}
}

// endSessions closes all sessions concurrently. The SDK drops the responses to unfinished
// calls.
func (s *Server) endSessions() {
	var group sync.WaitGroup
	for session := range s.mcp.Sessions() {
		// A session without an ID is a single request, which ends by itself.
		if session.ID() != "" {
			group.Go(func() { _ = session.Close() })
		}
	}
	group.Wait()
}
