package toolset

import (
	"bytes"
	"context"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
)

const (
	modern = "2026-07-28"
	legacy = "2025-11-25"
)

// knownKinds are the kinds of the fake cluster.
var knownKinds = kubetest.KindsOf(corev1.AddToScheme)

func fakeKube(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) *callers.Kube {
	t.Helper()
	return &callers.Kube{WithWatch: knownKinds.Cluster(t).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()}
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: name, UID: "1"}}
}

func states(clk clock.PassiveClock) *Confirmations {
	return NewConfirmations(func(context.Context) ([]byte, error) { return bytes.Repeat([]byte{7}, 32), nil }, clk)
}

// server is an MCP server that records the outcome of the last call.
type server struct {
	*mcp.Server
	// user is the caller of the next call.
	user    string
	outcome *Outcome
}

func serve(s *Set, env Env) *server {
	served := &server{Server: mcptest.NewServer(nil, nil), user: "alice"}
	s.Register(served.Server, env)
	served.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			ctx = request.WithUser(ctx, &user.DefaultInfo{Name: served.user})
			ctx, served.outcome = WithOutcome(ctx)
			return next(ctx, method, req)
		}
	})
	return served
}

// connect connects a client that uses the given protocol revision.
func (s *server) connect(t *testing.T, revision string, options *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	session := mcptest.Connect(t, s.Server, options, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if got := session.InitializeResult().ProtocolVersion; got != revision {
		t.Fatalf("the session speaks %s, want %s", got, revision)
	}
	return session
}

// say calls a tool and returns the text of its answer.
func say(t *testing.T, session *mcp.ClientSession, params *mcp.CallToolParams) (text string, isError bool) {
	t.Helper()
	result, err := session.CallTool(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Content) != 1 {
		t.Fatalf("the answer has %d parts, want 1", len(result.Content))
	}
	return result.Content[0].(*mcp.TextContent).Text, result.IsError
}
