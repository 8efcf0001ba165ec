package protocol

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// limits are fixed for every server, except in tests.
type limits struct {
	// call is the time limit of a request.
	call time.Duration
	// beyondWait is the extra time of a tool that waits, in addition to its timeoutSeconds.
	beyondWait time.Duration
	// answer is the time that the client's user has to answer a question.
	answer time.Duration
	// sessionIdle is the time without a request after which a session ends.
	sessionIdle time.Duration
	// stream is the maximum duration of a stream or a subscription. Package identity ends
	// every request after an hour.
	stream time.Duration
	// lastMessage is how long before the expiry of its token a stream ends.
	lastMessage time.Duration
	// coalesce is the period in which changes of a resource are combined into one
	// notification.
	coalesce time.Duration
	// urisPerStream is the maximum number of resources in one stream.
	urisPerStream int
	// pageSize is the maximum number of items in a list.
	pageSize int
}

func defaultLimits() limits {
	return limits{
		call:          30 * time.Second,
		beyondWait:    10 * time.Second,
		answer:        5 * time.Minute,
		sessionIdle:   5 * time.Minute,
		stream:        59 * time.Minute,
		lastMessage:   time.Second,
		coalesce:      250 * time.Millisecond,
		urisPerStream: 16,
		pageSize:      100,
	}
}

// bound sets the timeout of a request and cancels it when the client's connection closes.
// In a session, requests outlive their connection, so their number is limited instead.
// Streams have their own limits.
func (s *Server) bound(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		ctx, cancel := followConnection(ctx)
		defer cancel()
		if method == methodListen {
			return next(ctx, method, req)
		}
		if inSession(req) && !isNotification(method) {
			end, err := s.beginSessionCall(callers.NameOf(ctx))
			if err != nil {
				return nil, err
			}
			defer end()
		}
		ctx, stop := context.WithTimeout(ctx, s.timeout(req))
		defer stop()
		defer s.running.work.add(stop)()
		return next(ctx, method, req)
	}
}

// timeout returns the time limit of a request. A tool that waits gets the time from its
// arguments wait and timeoutSeconds, which mean the same in all tools. If the server can
// ask the user during the call, which is possible only in a session, the limit includes the
// time for the answer.
func (s *Server) timeout(req mcp.Request) time.Duration {
	params, ok := req.GetParams().(*mcp.CallToolParamsRaw)
	if !ok {
		return s.limits.call
	}
	timeout := s.limits.call
	var waits struct {
		Wait           bool    `json:"wait"`
		TimeoutSeconds float64 `json:"timeoutSeconds"`
	}
	// The tool reports invalid arguments.
	if err := json.Unmarshal(params.Arguments, &waits); err == nil && (waits.Wait || s.tools[params.Name].Waits) {
		timeout = toolset.DefaultTimeout + s.limits.beyondWait
		if waits.TimeoutSeconds > 0 {
			timeout = time.Duration(min(waits.TimeoutSeconds, toolset.MaxTimeout.Seconds())*float64(time.Second)) + s.limits.beyondWait
		}
	}
	if s.tools[params.Name].Effect == toolset.Destroys && inSession(req) {
		timeout += s.limits.answer
	}
	return timeout
}

// isNotification reports whether a message is a notification, which has no response.
func isNotification(method string) bool { return strings.HasPrefix(method, "notifications/") }

// inSession reports whether a request belongs to a session.
func inSession(req mcp.Request) bool {
	session, ok := req.GetSession().(*mcp.ServerSession)
	return ok && session.ID() != ""
}

type connectionKey struct{}

// withConnection stores the request's context for followConnection. It is used only for
// requests without a session: in a session, the context of the first request is used, whose
// connection ends early.
func withConnection(ctx context.Context) context.Context {
	return context.WithValue(ctx, connectionKey{}, ctx)
}

// followConnection cancels the work when the client disconnects, if the response can be
// sent only on that connection. The SDK does that only for revision 2026-07-28.
func followConnection(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	connection, ok := ctx.Value(connectionKey{}).(context.Context)
	if !ok {
		return ctx, cancel
	}
	stop := context.AfterFunc(connection, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// beginSessionCall counts a user's request in a session until end is called. Such
// requests continue after their connection closes, so the limits of the HTTP middleware
// do not cover them. The error is for the client.
func (s *Server) beginSessionCall(user string) (end func(), err error) {
	end, ok := s.sessionCalls.Begin(user)
	if !ok {
		return nil, &jsonrpc.Error{Code: codeBusy, Message: fmt.Sprintf("user %q has %d requests in sessions that have not ended, and may have no more: wait for one of them, or cancel it", user, s.sessionCalls.Most())}
	}
	return end, nil
}

// running tracks the HTTP requests that are being answered and the work that they started.
// In a session, the work can outlive its request.
type running struct {
	work cancels

	mu       sync.Mutex
	refusing bool
	requests sync.WaitGroup
}

// begin adds a request until end is called. ok is false once the server shuts down.
func (r *running) begin() (end func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refusing {
		return nil, false
	}
	r.requests.Add(1)
	return r.requests.Done, true
}

// refuse rejects further requests.
func (r *running) refuse() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusing = true
}

// wait waits until all requests have ended. It must be called after refuse.
func (r *running) wait() { r.requests.Wait() }

// cancels holds the cancel functions of running work.
type cancels struct {
	mu    sync.Mutex
	ended bool
	last  int
	all   map[int]context.CancelFunc
}

// add adds a cancel function, until forget is called.
func (c *cancels) add(cancel context.CancelFunc) (forget func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[int]context.CancelFunc{}
	}
	c.last++
	id := c.last
	c.all[id] = cancel
	if c.ended {
		cancel()
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.all, id)
	}
}

// cancel cancels all running work. Work that is added later is cancelled at once.
func (c *cancels) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, cancel := range c.all {
		cancel()
	}
}
