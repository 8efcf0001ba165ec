package protocol

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/requestid"
)

// userField is where package identity puts the caller into the token's info.
const userField = "user"

// identify puts the caller and a logger with the request's id into the context.
// Both come from what the SDK says about this very request: in a session the
// values of the context are those of its first request. Where nothing is said the
// context has no caller, and nothing can be done in anybody's name.
func (s *Server) identify(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		logger := s.config.Logger
		var caller user.Info
		if extra := req.GetExtra(); extra != nil {
			caller = userOf(extra.TokenInfo)
			// Package gate sets it on each request that it lets through.
			if id := extra.Header.Get(requestid.Header); id != "" {
				logger = logger.WithValues(requestid.LogKey, id)
				ctx = requestid.Into(ctx, id)
			}
		}
		return next(log.IntoContext(request.WithUser(ctx, caller), logger), method, req)
	}
}

// userOf is nil where nobody is known.
func userOf(info *auth.TokenInfo) user.Info {
	if info == nil {
		return nil
	}
	caller, _ := info.Extra[userField].(user.Info)
	return caller
}

// expiryOf is when the token ends, or zero where that is not known.
func expiryOf(info *auth.TokenInfo) time.Time {
	if info == nil {
		return time.Time{}
	}
	return info.Expiration
}
