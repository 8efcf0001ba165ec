package coderd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/sets"
)

// TokenRequest describes a new token.
type TokenRequest struct {
	// Name is unique among the tokens of a user.
	Name string
	// Lifetime is at most MaxTokenLifetime.
	Lifetime time.Duration
}

// Token is a new token. Coder returns its value only once.
type Token struct {
	ID, Value string
}

// TokenInfo is a token as Coder lists it.
type TokenInfo struct {
	ID        string    `json:"id"`
	Name      string    `json:"token_name"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
	// UserID is the user to whom the token belongs.
	UserID uuid.UUID `json:"user_id"`
	// Username is set only by AllTokens.
	Username string `json:"username"`
	// Expired is true if the token had expired when Coder listed it, by the clock of Coder.
	Expired bool `json:"-"`
}

// CreateToken creates an API token of a user. If the name exists, the error is a conflict.
func (c *Client) CreateToken(ctx context.Context, user string, request TokenRequest) (Token, error) {
	// Without a scope the token has all permissions of its user.
	return c.createToken(ctx, user, codersdk.CreateTokenRequest{TokenName: request.Name, Lifetime: request.Lifetime})
}

func (c *Client) createToken(ctx context.Context, user string, request codersdk.CreateTokenRequest) (Token, error) {
	var out Token
	err := c.call(ctx, fmt.Sprintf("creating token %q of user %q", request.TokenName, user), func(ctx context.Context) error {
		res, err := c.sdk.CreateToken(ctx, user, request)
		if err != nil {
			return err
		}
		// kubectl coder prints the token on a terminal.
		if !plainName.MatchString(res.Key) {
			return errors.New("a token must consist of " + plainNameRule)
		}
		out = Token{ID: TokenID(res.Key), Value: res.Key}
		return nil
	}, user)
	return out, err
}

// TokenID returns the id of a token, which is the part before the dash.
func TokenID(token string) string {
	id, _, _ := strings.Cut(token, "-")
	return id
}

// TokensOf lists the API tokens of a user, but not the sessions. The list includes expired tokens,
// whose names are in use until Coder deletes them.
func (c *Client) TokensOf(ctx context.Context, user string) ([]TokenInfo, error) {
	// Before 2.31 Coder always lists expired tokens.
	out, err := c.listTokens(ctx, fmt.Sprintf("listing the tokens of user %q", user), user, "include_expired")
	for i := range out {
		// So that a token is equal to the one that TokenByName returns.
		out[i].Username = ""
	}
	return out, err
}

// AllTokens lists the API tokens of all users that this client's user may read, but not the
// sessions. Since 2.31 the list does not include expired tokens.
func (c *Client) AllTokens(ctx context.Context) ([]TokenInfo, error) {
	return c.listTokens(ctx, "listing the tokens of all users", Me, "include_all")
}

func (c *Client) listTokens(ctx context.Context, op, user, option string) ([]TokenInfo, error) {
	// Coder's type cannot be decoded if a token has a scope of a later release.
	var tokens []TokenInfo
	var now time.Time
	err := c.call(ctx, op, func(ctx context.Context) error {
		return c.request(ctx, http.MethodGet, fmt.Sprintf("/api/v2/users/%s/keys/tokens", user), nil, http.StatusOK, func(header http.Header, body io.Reader) error {
			// The local clock may differ from Coder's.
			now, _ = http.ParseTime(header.Get("Date"))
			return into(&tokens)(header, body)
		}, withQuery(map[string]string{option: "true"}))
	}, user)
	for i := range tokens {
		tokens[i].Expired = !now.Before(tokens[i].ExpiresAt)
		boundNames(&tokens[i].ID, &tokens[i].Name, &tokens[i].Username)
	}
	return tokens, err
}

// TokenByName returns an API token of a user by its name.
func (c *Client) TokenByName(ctx context.Context, user, name string) (TokenInfo, error) {
	key, err := c.key(ctx, fmt.Sprintf("reading token %q of user %q", name, user), "tokens/"+name, user, name)
	return key.TokenInfo, err
}

// OwnKey returns an API token or a session of this client's user by its id.
func (c *Client) OwnKey(ctx context.Context, id string) (TokenInfo, error) {
	key, err := c.key(ctx, fmt.Sprintf("reading token %q", id), id, Me, id)
	return key.TokenInfo, err
}

type apiKey struct {
	TokenInfo
	Scopes    []codersdk.APIKeyScope        `json:"scopes"`
	AllowList []codersdk.APIAllowListTarget `json:"allow_list"`
}

func (c *Client) key(ctx context.Context, op, path, user, name string) (apiKey, error) {
	key, err := get[apiKey](ctx, c, op, fmt.Sprintf("/api/v2/users/%s/keys/%s", user, path), nil, user, name)
	boundNames(&key.ID, &key.Name)
	return key, err
}

// DeleteToken revokes a token or ends a session immediately.
func (c *Client) DeleteToken(ctx context.Context, user, id string) error {
	return c.call(ctx, fmt.Sprintf("deleting token %q of user %q", id, user), func(ctx context.Context) error {
		return c.sdk.DeleteAPIKey(ctx, user, id)
	}, user, id)
}

// errUnrestricted reports that Coder created a token with more permissions than requested.
var errUnrestricted = errors.New("the token is not restricted to the workspace")

// IsUnrestricted reports whether Coder is too old to restrict a token to a workspace, and ignored
// the restriction.
func IsUnrestricted(err error) bool { return errors.Is(err, errUnrestricted) }

// workspaceScopes returns the scopes of a token that is restricted to a workspace. They include
// neither the creation of tokens nor changes of users or templates, because these would give access
// to other workspaces.
func workspaceScopes() []codersdk.APIKeyScope {
	return []codersdk.APIKeyScope{
		codersdk.APIKeyScopeWorkspaceRead, codersdk.APIKeyScopeWorkspaceUpdate,
		codersdk.APIKeyScopeWorkspaceStart, codersdk.APIKeyScopeWorkspaceStop,
		codersdk.APIKeyScopeWorkspaceSsh, codersdk.APIKeyScopeWorkspaceApplicationConnect,
		// Coder shows and starts a workspace only for users who may read and use its template.
		codersdk.APIKeyScopeTemplateRead, codersdk.APIKeyScopeTemplateUse,
	}
}

// workspaceAllowList returns the objects to which a token is restricted. It allows all templates:
// with the id of one template, Coder 2.30 cannot list templates and does not show the workspace.
func workspaceAllowList(workspace uuid.UUID) []codersdk.APIAllowListTarget {
	return []codersdk.APIAllowListTarget{
		codersdk.AllowResourceTarget(codersdk.ResourceWorkspace, workspace),
		codersdk.AllowTypeTarget(codersdk.ResourceTemplate),
	}
}

// CreateWorkspaceToken creates an API token of a user that is restricted to one workspace. If Coder
// did not restrict the token, it is revoked, and IsUnrestricted is true for the error.
func (c *Client) CreateWorkspaceToken(ctx context.Context, user string, workspace uuid.UUID, request TokenRequest) (Token, TokenInfo, error) {
	token, err := c.createToken(ctx, user, codersdk.CreateTokenRequest{
		TokenName: request.Name, Lifetime: request.Lifetime,
		Scopes: workspaceScopes(), AllowList: workspaceAllowList(workspace),
	})
	if err != nil {
		return Token{}, TokenInfo{}, err
	}
	op := fmt.Sprintf("reading token %q of user %q", request.Name, user)
	key, err := c.key(ctx, op, token.ID, user, token.ID)
	if err == nil && !restricted(key, workspace) {
		err = &Error{Op: op, Message: "Coder did not restrict the token to the workspace, because it is too old for that", Err: errUnrestricted}
	}
	if err == nil {
		return token, key.TokenInfo, nil
	}
	// Revoke the token even if the caller is gone.
	if revokeErr := c.DeleteToken(Apart(context.WithoutCancel(ctx)), user, token.ID); revokeErr != nil && !IsNotFound(revokeErr) {
		err = errors.Join(err, fmt.Errorf("and it could not be revoked: %w", revokeErr))
	}
	return Token{}, TokenInfo{}, err
}

// restricted reports whether a key has no access to any other workspace.
func restricted(key apiKey, workspace uuid.UUID) bool {
	return len(key.AllowList) > 0 && sets.New(workspaceAllowList(workspace)...).HasAll(key.AllowList...) &&
		len(key.Scopes) > 0 && sets.New(workspaceScopes()...).HasAll(key.Scopes...)
}
