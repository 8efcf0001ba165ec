package agents

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// stub is a connection that records its use.
type stub struct {
	broken bool
	closed atomic.Bool
	// check is what Check returns.
	check atomic.Pointer[error]
}

func (s *stub) Check(context.Context) error {
	if err := s.check.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *stub) DialSSH(context.Context) (net.Conn, error) {
	if s.broken {
		return nil, errors.New("it does not answer")
	}
	return &net.TCPConn{}, nil
}
func (*stub) Dial(context.Context, uint16) (net.Conn, error) { return &net.TCPConn{}, nil }
func (s *stub) Close() error {
	s.closed.Store(true)
	return nil
}

// dialed returns a pool and a function that returns its connections in order.
func dialed(t *testing.T) (*Pool, func() []*stub) {
	t.Helper()
	made := make(chan *stub, 2*maxSessions)
	var all []*stub
	p := NewPool(func(context.Context, *coderd.Client, uuid.UUID) (Conn, error) {
		s := &stub{}
		made <- s
		return s, nil
	})
	t.Cleanup(p.Close)
	return p, func() []*stub {
		for len(made) > 0 {
			all = append(all, <-made)
		}
		return all
	}
}

func open(t *testing.T, p *Pool, client *coderd.Client, agent uuid.UUID) *Session {
	t.Helper()
	s, err := p.Open(t.Context(), client, agent)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSessionsShareAConnection(t *testing.T) {
	p, made := dialed(t)
	p.idle = time.Millisecond
	one, other, agent := &coderd.Client{}, &coderd.Client{}, uuid.New()
	first, second := open(t, p, one, agent), open(t, p, one, agent)
	if first.Conn != second.Conn {
		t.Error("two sessions of one agent have two connections")
	}
	// Any Coder may claim this agent id.
	if foreign := open(t, p, other, agent); foreign.Conn == first.Conn {
		t.Error("another Coder got the connection to the agent")
	}
	first.End()
	first.End()
	if again := open(t, p, one, agent); again.Conn != second.Conn || made()[0].closed.Load() {
		t.Error("the connection was closed while a session used it")
	} else {
		again.End()
	}
	second.End()
	polltest.Eventually(t, "the connection is closed when nobody uses it", func() error {
		if !made()[0].closed.Load() {
			return errors.New("it is open")
		}
		return nil
	})
	if third := open(t, p, one, agent); third.Conn == second.Conn {
		t.Error("a session got a closed connection")
	}
}

func TestBrokenConnectionIsReplaced(t *testing.T) {
	p, made := dialed(t)
	client, agent := &coderd.Client{}, uuid.New()
	before := open(t, p, client, agent)
	made()[0].broken = true
	if _, err := before.DialSSH(t.Context()); err != nil {
		t.Fatalf("a session on a broken connection: %v", err)
	}
	after := open(t, p, client, agent)
	if all := made(); len(all) != 2 || after.Conn != before.Conn || after.Conn != Conn(all[1]) {
		t.Errorf("%d connections were opened, want a second one that both sessions use", len(all))
	}
	polltest.Eventually(t, "the broken connection is closed", func() error {
		if !made()[0].closed.Load() {
			return errors.New("it is open")
		}
		return nil
	})
}

func TestLimits(t *testing.T) {
	p, _ := dialed(t)
	client, agent := &coderd.Client{}, uuid.New()
	for range maxAgentSessions {
		open(t, p, client, agent)
	}
	if _, err := p.Open(t.Context(), client, agent); !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), fmt.Sprint(maxAgentSessions)) {
		t.Errorf("one more with the same agent: %v", err)
	}
	last := open(t, p, client, uuid.New())
	for p.used[useSession] < maxSessions {
		open(t, p, client, uuid.New())
	}
	if _, err := p.Open(t.Context(), client, uuid.New()); !errors.Is(err, ErrLimit) {
		t.Errorf("one more than the replica serves: %v", err)
	}
	last.End()
	open(t, p, client, uuid.New())
}

// TestForwardedConnectionsAreLimited checks that each connection to a port counts until it is closed, and
// not as a session.
func TestForwardedConnectionsAreLimited(t *testing.T) {
	p, _ := dialed(t)
	s := open(t, p, &coderd.Client{}, uuid.New())
	var conns []net.Conn
	for range maxAgentSessions {
		conn, err := s.Dial(t.Context(), 80)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	// The agent is asked about the metrics port, which is a connection to it too.
	for _, port := range []uint16{80, metricsPort} {
		if _, err := s.Dial(t.Context(), port); !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), "100 forwarded connections") {
			t.Fatalf("one more, to port %d: %v", port, err)
		}
	}
	open(t, p, s.key.client, s.key.agent).End()
	for range 2 {
		_ = conns[0].Close()
	}
	again, err := s.Dial(t.Context(), 80)
	if err != nil {
		t.Fatalf("after one was closed: %v", err)
	}
	if _, err := s.Dial(t.Context(), 80); !errors.Is(err, ErrLimit) {
		t.Errorf("a connection that was closed twice counts twice: %v", err)
	}
	s.End()
	for _, conn := range append(conns[1:], again) {
		_ = conn.Close()
	}
	if p.used != [uses]int{} {
		t.Errorf("%d are counted, and there is none", p.used)
	}
}

func TestFailuresAreNotKept(t *testing.T) {
	fails := atomic.Bool{}
	fails.Store(true)
	p := NewPool(func(context.Context, *coderd.Client, uuid.UUID) (Conn, error) {
		if fails.Load() {
			return nil, errors.New("no route")
		}
		return &stub{}, nil
	})
	client, agent := &coderd.Client{}, uuid.New()
	if _, err := p.Open(t.Context(), client, agent); err == nil || err.Error() != "no route" {
		t.Errorf("an agent that cannot be reached: %v", err)
	}
	fails.Store(false)
	polltest.Eventually(t, "the next session connects", func() error {
		s, err := p.Open(t.Context(), client, agent)
		if err == nil {
			s.End()
		}
		return err
	})
	if p.used != [uses]int{} {
		t.Errorf("%d are counted, and there is none", p.used)
	}
	p.Close()
	if _, err := p.Open(t.Context(), client, agent); err == nil {
		t.Error("a closed pool opens sessions")
	}
}

// TestPanic checks that a panic in the library fails the session and not the process.
func TestPanic(t *testing.T) {
	p := NewPool(func(context.Context, *coderd.Client, uuid.UUID) (Conn, error) { panic("nil") })
	defer p.Close()
	if _, err := p.Open(t.Context(), &coderd.Client{}, uuid.New()); err == nil || !strings.HasSuffix(err.Error(), ": bug: nil") {
		t.Errorf("got %v", err)
	}
}

// TestAgentThatIsGone checks that an agent may be silent for a limited time, as long as Coder may
// take to restart. A restarted agent has lost its sessions.
func TestAgentThatIsGone(t *testing.T) {
	silent := errors.New("no answer")
	for name, c := range map[string]struct {
		check  error
		after  time.Duration
		closed bool
	}{
		"answers":             {nil, time.Hour, false},
		"silent for a moment": {silent, silenceTimeout - 2*checkInterval, false},
		"silent for long":     {silent, silenceTimeout + 2*checkInterval, true},
		"another process":     {errReplaced, 2 * checkInterval, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &stub{}
				p := NewPool(func(context.Context, *coderd.Client, uuid.UUID) (Conn, error) { return s, nil })
				defer p.Close()
				client, agent := &coderd.Client{}, uuid.New()
				session := open(t, p, client, agent)
				defer session.End()
				ctx, cancel := session.Context(t.Context())
				defer cancel()
				if c.check != nil {
					s.check.Store(&c.check)
				}
				time.Sleep(c.after) //nolint:forbidigo // The clock is that of synctest.
				synctest.Wait()
				if closed := s.closed.Load(); closed != c.closed || (ctx.Err() != nil) != c.closed {
					t.Fatalf("after %s the connection is closed: %t, and the context of a session: %v, want %t", c.after, closed, ctx.Err(), c.closed)
				}
				s.check.Store(nil)
				time.Sleep(time.Hour) //nolint:forbidigo // The clock is that of synctest.
				if closed := s.closed.Load(); closed != c.closed {
					t.Errorf("later the connection is closed: %t, want %t", closed, c.closed)
				}
				if again := open(t, p, client, agent); c.closed == (again.entry == session.entry) {
					t.Errorf("the next session shares the connection: %t, want %t", again.entry == session.entry, !c.closed)
				} else {
					again.End()
				}
			})
		})
	}
}

// TestAgentsOwnPorts checks that ports which the agent serves without a password are not reachable
// as ports of the workspace.
func TestAgentsOwnPorts(t *testing.T) {
	p, _ := dialed(t)
	s := open(t, p, &coderd.Client{}, uuid.New())
	for _, port := range []uint16{0, 1, 2, 3, 4, 8, 22} {
		if _, err := s.Dial(t.Context(), port); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("port %d belongs to the agent", port)) {
			t.Errorf("port %d: %v, want that it is refused", port, err)
		}
	}
	for _, port := range []uint16{9, 21, 23, 80, 65535} {
		if _, err := s.Dial(t.Context(), port); err != nil {
			t.Errorf("port %d: %v", port, err)
		}
	}
}
