package coderd

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// proxyTokenHeader is the header in which a proxy sends its token.
const proxyTokenHeader = "Coder-External-Proxy-Token"

// noFeatureAsked (400) is Coder's error for an authenticated proxy that requests keys without a
// feature.
const noFeatureAsked = "Missing feature query parameter."

// ProxyOfToken returns the id of the proxy to which a token belongs, which is the first part of the
// token. It returns false if the text is not such a token.
func ProxyOfToken(token string) (uuid.UUID, bool) {
	id, secret, ok := strings.Cut(token, ":")
	proxy, err := uuid.Parse(id)
	return proxy, ok && err == nil && secret != ""
}

// CheckWorkspaceProxyToken returns nil if Coder accepts a token of a proxy. The error is
// IsUnauthorized if Coder does not: the token was replaced, or the proxy is deleted. It needs no
// session token.
//
// Coder has no endpoint for this. The request asks for the keys of a proxy without a feature: Coder
// verifies the token, then refuses the request and sends no key.
func (c *Client) CheckWorkspaceProxyToken(ctx context.Context, token string) error {
	const op = "asking Coder about the token of a workspace proxy"
	if _, ok := ProxyOfToken(token); !ok {
		return &Error{Op: op, StatusCode: http.StatusUnauthorized, Message: "the text is not a token of a workspace proxy; it must be <id>:<secret>"}
	}
	err := c.callWithoutToken(ctx, op, func(ctx context.Context) error {
		res, err := c.sdk.RequestWithoutSessionToken(ctx, http.MethodGet, "/api/v2/workspaceproxies/me/crypto-keys", nil, func(r *http.Request) {
			r.Header.Set(proxyTokenHeader, token)
		})
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		return codersdk.ReadBodyAsError(res)
	})
	var answer *Error
	if errors.As(err, &answer) && answer.StatusCode == http.StatusBadRequest && answer.Message == noFeatureAsked {
		return nil
	}
	return withoutSecret(err, token)
}
