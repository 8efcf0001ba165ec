package protocol

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

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

	mu sync.Mutex
	// opening counts, by user, the requests that may begin a session.
	opening map[string]int
	// users contains the user of each session, by session ID.
	users map[string]string
}

func newSessions(server *Server, next http.Handler) *sessions {
	return &sessions{server: server, next: next, opening: map[string]int{}, users: map[string]string{}}
}

// ServeHTTP implements http.Handler.
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
	var tooMany *tooManyError
	switch {
	case errors.As(err, &tooMany):
		w.Header().Set("Retry-After", "60")
		http.Error(w, err.Error(), http.StatusTooManyRequests)
		return
	case err != nil:
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), s.server.life(expiryOf(info)))
	defer cancel()
	s.next.ServeHTTP(w, r.WithContext(ctx))
}

// serveFirst serves a request without a session, which may begin one.
func (s *sessions) serveFirst(w http.ResponseWriter, r *http.Request, user string) {
	if status, why := s.admit(user); status != http.StatusOK {
		w.Header().Set("Retry-After", "60")
		http.Error(w, why, status)
		return
	}
	p := &place{user: user}
	defer s.leave(p)
	s.next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), placeKey{}, p)))
}

// place is a reservation for a session that may begin. The session takes it over, so that
// the two are never counted both: a client that has its response may send the next request
// before this one ends.
type place struct {
	user string
	// left reports that the place is no longer counted.
	left bool
}

type placeKey struct{}

// admit reserves a place for a session that may begin, until leave is called. A user may
// have half of all places, so that one user cannot exhaust them.
func (s *sessions) admit(user string) (status int, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, own := len(s.users), s.opening[user]
	for _, n := range s.opening {
		all += n
	}
	for _, u := range s.users {
		if u == user {
			own++
		}
	}
	most := s.server.config.MaxSessions
	share := max(1, most/2)
	idle := s.server.limits.sessionIdle
	switch {
	case all >= most:
		return http.StatusServiceUnavailable, fmt.Sprintf("all %d sessions of this server are in use; those that are not used end after %s: try again later, or use protocol version %s, which needs none", most, idle, firstWithoutSessions)
	case own >= share:
		return http.StatusTooManyRequests, fmt.Sprintf("user %q has %d sessions, and may have no more; end one with DELETE, or wait until those that are not used end after %s", user, own, idle)
	}
	s.opening[user]++
	return http.StatusOK, ""
}

// leave releases a place. Further calls have no effect.
func (s *sessions) leave(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaveLocked(p)
}

func (s *sessions) leaveLocked(p *place) {
	if p.left {
		return
	}
	p.left = true
	if s.opening[p.user]--; s.opening[p.user] == 0 {
		delete(s.opening, p.user)
	}
}

// began counts a session until it ends, for any reason. ctx is the context of the request
// that began it.
func (s *sessions) began(ctx context.Context, session *mcp.ServerSession, user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users[session.ID()] = user
	if p, ok := ctx.Value(placeKey{}).(*place); ok {
		s.leaveLocked(p)
	}
	s.server.config.Metrics.AddSessions(1)
	go func() {
		// The error is the reason why the session ended.
		_ = session.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.users, session.ID())
		s.server.config.Metrics.AddSessions(-1)
	}()
}

func (s *sessions) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.users)
}

// describe completes the response to initialize. With a session, it starts to count the
// session. Without one, it removes the capability to subscribe, because notifications could
// not be delivered.
func (s *Server) describe(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, req)
		initialized, ok := result.(*mcp.InitializeResult)
		if err != nil || !ok {
			return result, err
		}
		if inSession(req) {
			s.sessions.began(ctx, req.GetSession().(*mcp.ServerSession), callers.NameOf(ctx))
		} else if resources := initialized.Capabilities.Resources; resources != nil {
			// The capabilities belong to this response alone.
			resources.Subscribe = false
		}
		return result, nil
	}
}
