package coderd

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// proxyTokenHeader is where a proxy shows its token.
const proxyTokenHeader = "Coder-External-Proxy-Token"

// noFeatureAsked (400) is what Coder says to a proxy that it knows and that asks
// for keys without saying which.
const noFeatureAsked = "Missing feature query parameter."

// ProxyOfToken gives the id of the proxy to which a token belongs, for the token
// begins with it. It is false for a text that is no such token.
func ProxyOfToken(token string) (uuid.UUID, bool) {
	id, secret, ok := strings.Cut(token, ":")
	proxy, err := uuid.Parse(id)
	return proxy, ok && err == nil && secret != ""
}

// CheckWorkspaceProxyToken asks Coder whether it accepts a token of a proxy. Nil
// means that it does. IsUnauthorized means that it does not: the token is an old
// one, or the proxy is deleted. It needs no session token.
//
// Coder has no question of that kind. This asks for the keys that a proxy gets,
// and leaves out which ones, so that Coder looks at the token, complains about
// the question, and sends no key.
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
