package agents

import (
	"context"
	"crypto/ed25519"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
	"google.golang.org/grpc/test/bufconn"
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

// TestStalledStart checks that Run returns if the agent stops answering before the command has started.
func TestStalledStart(t *testing.T) {
	for name, serve := range map[string]func(<-chan ssh.NewChannel){
		"before the session is open": func(<-chan ssh.NewChannel) {},
		"in an open session":         func(channels <-chan ssh.NewChannel) { _, _, _ = (<-channels).Accept() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				err := Run(t.Context(), newClient(t, serve), Command{Args: []string{"true"}})
				if took := time.Since(start); !errors.Is(err, errStalled) || took > aliveInterval+aliveTimeout+hangupTimeout {
					t.Errorf("after %s: %v", took, err)
				}
			})
		})
	}
}

// TestStalledHangup checks that Run returns if the agent no longer reads when the client has gone.
func TestStalledHangup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &unread{stalled: make(chan struct{}), closed: make(chan struct{})}
		client := newClientOn(t, conn, func(channels <-chan ssh.NewChannel) { _, _, _ = (<-channels).Accept() })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- Run(ctx, client, Command{Args: []string{"true"}}) }()
		synctest.Wait()
		close(conn.stalled)
		cancel()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		case <-time.After(hangupTimeout + time.Second):
			t.Error("still waiting for the agent to read the signal")
			_ = conn.Close()
		}
	})
}

// unread is a connection whose other end stops reading.
type unread struct {
	net.Conn
	stalled, closed chan struct{}
	once            sync.Once
}

// Write implements net.Conn.
func (u *unread) Write(p []byte) (int, error) {
	select {
	case <-u.stalled:
		<-u.closed
		return 0, net.ErrClosed
	default:
		return u.Conn.Write(p)
	}
}

// Close implements net.Conn.
func (u *unread) Close() error {
	u.once.Do(func() { close(u.closed) })
	return u.Conn.Close()
}

// newClient returns a client of an SSH server in memory, which answers only what serve answers.
func newClient(t *testing.T, serve func(<-chan ssh.NewChannel)) *ssh.Client {
	t.Helper()
	return newClientOn(t, &unread{stalled: make(chan struct{}), closed: make(chan struct{})}, serve)
}

// newClientOn is newClient on a given connection.
func newClientOn(t *testing.T, conn *unread, serve func(<-chan ssh.NewChannel)) *ssh.Client {
	t.Helper()
	signer, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(signer)
	listener := bufconn.Listen(1 << 20)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		if _, channels, _, err := ssh.NewServerConn(conn, config); err == nil {
			serve(channels)
		}
	}()
	if conn.Conn, err = listener.DialContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	made, channels, requests, err := ssh.NewClientConn(conn, "agent", &ssh.ClientConfig{HostKeyCallback: ssh.InsecureIgnoreHostKey()})
	if err != nil {
		t.Fatal(err)
	}
	return ssh.NewClient(made, channels, requests)
}
