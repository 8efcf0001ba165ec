package mcptest

import (
	"context"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// NewServer returns a server without tools. All its requests come from the caller; nil means
// that they have no caller.
func NewServer(caller user.Info, options *mcp.ServerOptions) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "v0"}, options)
	if caller != nil {
		server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				return next(request.WithUser(ctx, caller), method, req)
			}
		})
	}
	return server
}

// Connect connects a client to the server until the test ends. The options may be nil.
func Connect(t testing.TB, server *mcp.Server, client *mcp.ClientOptions, session *mcp.ClientSessionOptions) *mcp.ClientSession {
	t.Helper()
	clientEnd, serverEnd := mcp.NewInMemoryTransports()
	running, err := server.Connect(t.Context(), serverEnd, nil)
	if err != nil {
		t.Fatal(err)
	}
	connected, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "v0"}, client).Connect(t.Context(), clientEnd, session)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = connected.Close()
		_ = running.Wait()
	})
	return connected
}
