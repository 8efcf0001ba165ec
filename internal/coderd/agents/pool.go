package agents

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

const (
	// dialTimeout limits how long a new connection may take, and firstAttempt how long the first
	// attempt to connect to a port may take.
	dialTimeout, firstAttempt = 15 * time.Second, 800 * time.Millisecond
	// idleTimeout is how long a connection without sessions stays open.
	idleTimeout = 2 * time.Minute
	// maxSessions limits the sessions of the process, maxAgentSessions those of one agent. The same
	// limits apply again to the connections that forwards open, so that these cannot use up all sessions.
	maxSessions, maxAgentSessions = 400, 100
	// checkInterval is how often an open connection is checked. An agent that has not responded for
	// silenceTimeout is considered stopped. Coder's relay may restart within that time.
	checkInterval, silenceTimeout = 5 * time.Second, 30 * time.Second
)

// Conn is a connection to an agent.
type Conn interface {
	// DialSSH connects to the agent's SSH server.
	DialSSH(ctx context.Context) (net.Conn, error)
	// Dial connects to a port of the agent, including those that the agent serves itself.
	Dial(ctx context.Context, port uint16) (net.Conn, error)
	// Check sends a ping to the agent. It returns errReplaced if the agent was restarted after the
	// connection was opened.
	Check(ctx context.Context) error
	Close() error
}

// Dialer connects to an agent.
type Dialer func(ctx context.Context, client *coderd.Client, agent uuid.UUID) (Conn, error)

// ErrLimit is returned if a limit of sessions or of forwarded connections is reached.
var ErrLimit = errors.New("limit reached")

var errClosed = errors.New("this replica is stopping")

// Pool manages the connections. It is safe for concurrent use.
type Pool struct {
	dial Dialer
	idle time.Duration

	mu      sync.Mutex
	entries map[key]*entry
	used    [uses]int
	closed  bool
}

// use is what a session is for.
type use int

const (
	// useSession is a command or a forward, and useForwarded a connection that a forward opened.
	useSession use = iota
	useForwarded
	uses
)

// String returns the plural noun for messages.
func (u use) String() string {
	return [uses]string{"sessions", "forwarded connections"}[u]
}

type key struct {
	client *coderd.Client
	agent  uuid.UUID
}

// entry is one connection. Its fields are guarded by Pool.mu, except conn and err,
// which do not change after opened is closed.
type entry struct {
	opened  chan struct{}
	closing sync.Once
	closed  chan struct{}
	conn    Conn
	err     error
	used    [uses]int
	expiry  *time.Timer
}

func (e *entry) unused() bool { return e.used == [uses]int{} }

// NewPool returns an empty pool. A nil dialer connects through Coder's relay.
func NewPool(dialer Dialer) *Pool {
	if dialer == nil {
		dialer = dial
	}
	return &Pool{dial: dialer, idle: idleTimeout, entries: map[key]*entry{}}
}

// Session is one use of a connection.
type Session struct {
	Conn
	pool  *Pool
	key   key
	entry *entry
	use   use
	once  sync.Once
}

// Open starts a session with an agent. The caller must call End.
func (p *Pool) Open(ctx context.Context, client *coderd.Client, agent uuid.UUID) (*Session, error) {
	s := &Session{pool: p, key: key{client, agent}}
	if err := p.join(s); err != nil {
		return nil, err
	}
	select {
	case <-s.entry.opened:
	case <-ctx.Done():
		s.End()
		return nil, fmt.Errorf("connecting to the agent: %w", ctx.Err())
	}
	if s.entry.err != nil {
		s.End()
		return nil, s.entry.err
	}
	s.Conn = s.entry.conn
	return s, nil
}

// join adds a session to the connection of its agent, and starts to open a connection if there is
// none.
func (p *Pool) join(s *Session) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	e, open := p.entries[s.key]
	if !open {
		e = &entry{opened: make(chan struct{}), closed: make(chan struct{})}
	}
	if err := p.count(e, s.use); err != nil {
		return err
	}
	if !open {
		p.entries[s.key] = e
		go p.open(s.key, e)
	}
	if e.expiry != nil {
		e.expiry.Stop()
		e.expiry = nil
	}
	s.entry = e
	return nil
}

// count adds a session to a connection, unless a limit is reached. The caller holds p.mu.
func (p *Pool) count(e *entry, u use) error {
	switch {
	case p.closed:
		return errClosed
	case p.used[u] >= maxSessions:
		return fmt.Errorf("%w: this replica of the operator has %d %s, which is the most it serves: try again later",
			ErrLimit, maxSessions, u)
	case e.used[u] >= maxAgentSessions:
		return fmt.Errorf("%w: the agent of the workspace has %d %s, which is the most it may have: end some of them",
			ErrLimit, maxAgentSessions, u)
	}
	p.used[u]++
	e.used[u]++
	return nil
}

// open opens a connection. It does not depend on the request of the first session, because other
// sessions may wait for the connection too.
func (p *Pool) open(k key, e *entry) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	func() {
		// A panic in the library, which reads what Coder sends, becomes an error.
		defer func() {
			if cause := recover(); cause != nil {
				e.err = fmt.Errorf("connecting to agent %s: bug: %v", k.agent, cause)
			}
		}()
		e.conn, e.err = p.dial(ctx, k.client, k.agent)
	}()
	close(e.opened)
	if e.err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.forget(k, e)
		return
	}
	go p.watch(k, e)
}

// watch closes the connection if the agent has stopped, which ends its sessions. A session that
// sends nothing would never notice this.
func (p *Pool) watch(k key, e *entry) {
	ticker := time.NewTicker(checkInterval)
	defer ticker.Stop()
	for heard := time.Now(); time.Since(heard) < silenceTimeout; {
		select {
		case <-ticker.C:
		case <-e.closed:
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), checkInterval)
		err := e.conn.Check(ctx)
		cancel()
		if errors.Is(err, errReplaced) {
			break
		}
		if err == nil {
			heard = time.Now()
		}
	}
	p.mu.Lock()
	p.forget(k, e)
	p.mu.Unlock()
	e.close()
}

// forget removes a connection from the pool, so that the next session opens a new one.
func (p *Pool) forget(k key, e *entry) {
	if p.entries[k] == e {
		delete(p.entries, k)
	}
}

// close closes the connection once it is open.
func (e *entry) close() {
	<-e.opened
	if e.err == nil {
		e.closing.Do(func() {
			close(e.closed)
			_ = e.conn.Close()
		})
	}
}

// End ends the session. It may be called more than once.
func (s *Session) End() {
	s.once.Do(func() {
		p, e := s.pool, s.entry
		p.mu.Lock()
		defer p.mu.Unlock()
		p.used[s.use]--
		e.used[s.use]--
		switch {
		case !e.unused():
		case p.entries[s.key] != e:
			go e.close()
		default:
			e.expiry = time.AfterFunc(p.idle, func() { p.expire(s.key, e) })
		}
	})
}

// expire closes a connection that no session uses.
func (p *Pool) expire(k key, e *entry) {
	p.mu.Lock()
	unused := e.unused() && p.entries[k] == e
	if unused {
		delete(p.entries, k)
	}
	p.mu.Unlock()
	if unused {
		e.close()
	}
}

// Close closes all connections, which ends their sessions, and refuses new ones.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	entries := p.entries
	p.entries = map[key]*entry{}
	p.mu.Unlock()
	var closing sync.WaitGroup
	for _, e := range entries {
		if e.expiry != nil {
			e.expiry.Stop()
		}
		closing.Go(e.close)
	}
	closing.Wait()
}
