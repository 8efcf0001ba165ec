package coderd

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// Share is a user or a group that a workspace is shared with.
type Share struct {
	ID uuid.UUID
	// IsGroup reports that it is a group, with the name GroupName. Coder does not report the names of
	// users.
	IsGroup   bool
	GroupName string
	// Role is RoleUse, RoleAdmin, or empty for permissions that are no role. In a change, empty ends
	// the sharing.
	Role string
}

// The roles of those that a workspace is shared with.
const (
	RoleUse   = string(codersdk.WorkspaceRoleUse)
	RoleAdmin = string(codersdk.WorkspaceRoleAdmin)
)

// EveryoneGroup is the name of the group of all members of an organization. It exists without a
// license, and its id is that of the organization.
const EveryoneGroup = "Everyone"

// CheckSharing returns an error if this Coder does not share workspaces. Before 2.32 that was an
// experiment, and lists did not report it. A version that cannot be parsed is not refused.
func (c *Client) CheckSharing(ctx context.Context) error {
	info, err := c.BuildInfo(ctx)
	if err == nil && atLeast(info.Version, "2.0") && !atLeast(info.Version, "2.32") {
		return &Error{
			Op: "sharing a workspace", StatusCode: http.StatusBadRequest,
			Message: fmt.Sprintf("this is Coder %s, and workspaces can be shared since Coder 2.32; upgrade Coder, or remove sharedWith", info.Version),
		}
	}
	return err
}

// ShareWorkspace changes the users and groups that a workspace is shared with. Others keep their
// roles. The user of the token needs the permission share.
func (c *Client) ShareWorkspace(ctx context.Context, workspaceID uuid.UUID, changes []Share) error {
	request := codersdk.UpdateWorkspaceACL{UserRoles: map[string]codersdk.WorkspaceRole{}, GroupRoles: map[string]codersdk.WorkspaceRole{}}
	for _, s := range changes {
		roles := request.UserRoles
		if s.IsGroup {
			roles = request.GroupRoles
		}
		roles[s.ID.String()] = codersdk.WorkspaceRole(s.Role)
	}
	return c.call(ctx, fmt.Sprintf("sharing workspace %s", workspaceID), func(ctx context.Context) error {
		return c.sdk.UpdateWorkspaceACL(ctx, workspaceID, request)
	})
}

// GroupID returns the id of a group of an organization. The error is IsNotSupported in a Coder
// without a license for groups.
func (c *Client) GroupID(ctx context.Context, organization uuid.UUID, name string) (uuid.UUID, error) {
	op := fmt.Sprintf("reading group %q", name)
	if name == EveryoneGroup {
		return organization, nil
	}
	if err := checkNames(op, name); err != nil {
		return uuid.Nil, err
	}
	group, err := get[struct {
		ID uuid.UUID `json:"id"`
	}](ctx, c, op, fmt.Sprintf("/api/v2/organizations/%s/groups/%s", organization, name), nil)
	return group.ID, err
}
