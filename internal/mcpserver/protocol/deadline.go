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
