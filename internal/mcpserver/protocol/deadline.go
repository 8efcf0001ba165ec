package protocol

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// bound gives a request its time, and ends it with the connection of its client; in
// a session, where it does not end with that, it bounds how many there are.
// Streams have their own bounds.
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

// timeout is how long the answer to a request may take. A tool that waits says so
// with the arguments that mean this for all tools. Where the server asks the
// client's user in the course of the call, which it can only in a session, the
// time that the user needs comes on top.
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
	// The tool itself says what is wrong with its arguments.
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

// isNotification says that a message is no request and has no answer.
func isNotification(method string) bool { return strings.HasPrefix(method, "notifications/") }

// inSession says whether a request belongs to a session, rather than being its
// own.
func inSession(req mcp.Request) bool {
	session, ok := req.GetSession().(*mcp.ServerSession)
	return ok && session.ID() != ""
}

type connectionKey struct{}

// withConnection lets followConnection find the connection of a request without
// a session. In a session the values of a context are those of the first request,
// whose connection ends at once.
func withConnection(ctx context.Context) context.Context {
	return context.WithValue(ctx, connectionKey{}, ctx)
}

// followConnection ends the work for a client that went away, where an answer
// could reach it on that connection only. The SDK does so for 2026-07-28 alone.
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
