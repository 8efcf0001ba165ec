package coderd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

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
	key, err := c.apiKey(ctx, op, token.ID, user, token.ID)
	if err == nil && !restricted(key, workspace) {
		err = &Error{Op: op, Message: "Coder did not restrict the token to the workspace, because it is too old for that", Err: errUnrestricted}
	}
	if err == nil {
		return token, newTokenInfo(key), nil
	}
	// Revoke the token even if the caller is gone.
	if revokeErr := c.DeleteToken(Apart(context.WithoutCancel(ctx)), user, token.ID); revokeErr != nil && !IsNotFound(revokeErr) {
		err = errors.Join(err, fmt.Errorf("and it could not be revoked: %w", revokeErr))
	}
	return Token{}, TokenInfo{}, err
}

// restricted reports whether a key has no access to any other workspace.
func restricted(key codersdk.APIKey, workspace uuid.UUID) bool {
	for _, target := range key.AllowList {
		if !slices.Contains(workspaceAllowList(workspace), target) {
			return false
		}
	}
	for _, scope := range key.Scopes {
		if !slices.Contains(workspaceScopes(), scope) {
			return false
		}
	}
	return len(key.AllowList) > 0 && len(key.Scopes) > 0
}
