package protocol

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/requestid"
)

// identify adds the caller, and a logger with the request ID, to the context. It takes both
// from the SDK's data about this request, because in a session the values of the context
// are those of its first request. Without that data the context has no caller, and handlers
// cannot act for anyone.
func (s *Server) identify(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		logger := s.config.Logger
		var caller user.Info
		if extra := req.GetExtra(); extra != nil {
			caller = callers.FromTokenInfo(extra.TokenInfo)
			// The HTTP middleware sets this header on each request.
			if id := extra.Header.Get(requestid.Header); id != "" {
				logger = logger.WithValues(requestid.LogKey, id)
				ctx = requestid.Into(ctx, id)
			}
		}
		return next(log.IntoContext(request.WithUser(ctx, caller), logger), method, req)
	}
}

// expiryOf returns when the token expires, or the zero time if that is unknown.
func expiryOf(info *auth.TokenInfo) time.Time {
	if info == nil {
		return time.Time{}
	}
	return info.Expiration
}
