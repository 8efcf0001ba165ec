package agents

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
)

// slow is an SSH connection whose server answers a request after a while, or after its end never.
type slow struct {
	ssh.Conn
	after, end time.Duration
	start      time.Time
	closed     chan struct{}
}

// SendRequest implements ssh.Conn.
func (s *slow) SendRequest(string, bool, []byte) (bool, []byte, error) {
	answer := time.After(s.after)
	if time.Since(s.start) >= s.end {
		answer = nil
	}
	select {
	case <-answer:
		return false, nil, nil
	case <-s.closed:
		return false, nil, errors.New("closed")
	}
}

// TestStalledSession checks that a session ends if its agent no longer answers, and no other session.
func TestStalledSession(t *testing.T) {
	for name, c := range map[string]struct {
		after, end time.Duration
		stalled    bool
	}{
		"an agent that answers":             {after: time.Second, end: time.Hour},
		"an agent on a busy machine":        {after: aliveTimeout - time.Second, end: time.Hour},
		"an agent that stops after a while": {after: time.Second, end: 10 * time.Minute, stalled: true},
		"an agent that never answers":       {stalled: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				s := &slow{after: c.after, end: c.end, start: time.Now(), closed: make(chan struct{})}
				go keepAlive(ctx, s, cancel)
				select {
				case <-ctx.Done():
				case <-time.After(30 * time.Minute):
				}
				if stalled := errors.Is(context.Cause(ctx), errStalled); stalled != c.stalled {
					t.Errorf("after %s the session has ended with %v", time.Since(s.start), context.Cause(ctx))
				}
				if took := time.Since(s.start); c.stalled && took > c.end+aliveInterval+aliveTimeout+c.after {
					t.Errorf("it took %s", took)
				}
				cancel(nil)
				close(s.closed)
			})
		})
	}
}
