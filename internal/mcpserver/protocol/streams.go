package protocol

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
)

// streams counts the open streams, with and without sessions, and the subscriptions of
// sessions. Each belongs to a user and ends when the server shuts down.
type streams struct {
	metrics *Metrics
	users   *callers.Quota
	closed  atomic.Bool
	stopper stopper
}

var errEnding = errors.New("this replica is stopping; open the stream again, to reach another replica")

func newStreams(maxPerUser int, metrics *Metrics) *streams {
	return &streams{metrics: metrics, users: callers.NewQuota(maxPerUser, 0), stopper: newStopper()}
}

// take counts a stream of a user until leave is called. The error, if it is not errEnding,
// is that the user has reached the limit.
func (s *streams) take(user string) (leave func(), err error) {
	if s.closed.Load() {
		return nil, errEnding
	}
	end, ok := s.users.Begin(user)
	if !ok {
		return nil, fmt.Errorf("user %q already has %d open streams and subscriptions, which is the maximum; end one of them and try again", user, s.users.PerUser())
	}
	s.metrics.Streams.Inc()
	return sync.OnceFunc(func() {
		end()
		s.metrics.Streams.Dec()
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
	forget := s.stopper.onStop(cancel)
	return stream, func() {
		cancel()
		leave()
		forget()
	}, nil
}

// close ends the streams that begin opened and rejects further ones.
func (s *streams) close() {
	s.closed.Store(true)
	s.stopper.stop()
}

// life returns the maximum duration of a stream that is opened now. The stream ends before
// its token expires, early enough to send the last message.
func (s *Server) life(expiry time.Time) time.Duration {
	if expiry.IsZero() {
		return s.limits.stream
	}
	return min(s.limits.stream, expiry.Sub(s.config.Clock.Now())-s.limits.lastMessage)
}
