package protocol

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
)

// streams counts the open streams, with and without sessions, and the subscriptions of
// sessions. Each belongs to a user and ends when the server shuts down.
type streams struct {
	metrics Metrics
	users   *callers.Quota
	// begun cancels the streams that end with the server.
	begun cancels

	mu     sync.Mutex
	closed bool
	open   int
}

var errEnding = errors.New("this replica is stopping; open the stream again, to reach another replica")

// tooManyError reports that a user has reached the limit of open streams.
type tooManyError struct {
	user string
	max  int
}

func (e *tooManyError) Error() string {
	return fmt.Sprintf("user %q has %d open streams and subscriptions, and may have no more; end one of them and try again", e.user, e.max)
}

func newStreams(max int, metrics Metrics) *streams {
	return &streams{metrics: metrics, users: callers.NewQuota(max)}
}

// take counts a stream of a user until leave is called. The error is a tooManyError or
// errEnding.
func (s *streams) take(user string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errEnding
	}
	end, ok := s.users.Begin(user)
	if !ok {
		return nil, &tooManyError{user: user, max: s.users.Most()}
	}
	s.open++
	s.metrics.AddStreams(1)
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open--
		end()
		s.metrics.AddStreams(-1)
	}), nil
}

// begin is take for a stream that the server ends itself: its context ends when the server
// shuts down, when life is over, when ctx ends, or when end is called. The caller must call
// end.
func (s *streams) begin(ctx context.Context, user string, life time.Duration) (stream context.Context, end func(), err error) {
	leave, err := s.take(user)
	if err != nil {
		return nil, nil, err
	}
	stream, cancel := context.WithTimeout(ctx, life)
	// If the server was closed in between, add cancels at once.
	forget := s.begun.add(cancel)
	return stream, sync.OnceFunc(func() {
		cancel()
		leave()
		forget()
	}), nil
}

// close ends the streams that begin opened and rejects further ones.
func (s *streams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.begun.cancel()
}

func (s *streams) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// life returns the maximum duration of a stream that is opened now. The stream ends before
// its token expires, early enough to send the last message.
func (s *Server) life(expiry time.Time) time.Duration {
	if expiry.IsZero() {
		return s.limits.stream
	}
	return min(s.limits.stream, expiry.Sub(s.config.Clock.Now())-s.limits.lastMessage)
}
