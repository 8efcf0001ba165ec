package coderdtest

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// ShareWorkspace shares a workspace with a user, as another user of Coder would. An empty role ends it.
func (s *Server) ShareWorkspace(id uuid.UUID, username, role string) {
	user, _ := s.User(username)
	s.change(id, func(w *workspace) { w.share(&w.users, user.ID, codersdk.WorkspaceRole(role)) })
}

func (w *workspace) share(roles *map[uuid.UUID]codersdk.WorkspaceRole, id uuid.UUID, role codersdk.WorkspaceRole) {
	if *roles == nil {
		*roles = map[uuid.UUID]codersdk.WorkspaceRole{}
	}
	(*roles)[id] = role
	if role == codersdk.WorkspaceRoleDeleted {
		delete(*roles, id)
	}
}

// grants reports whether the workspace is shared with a user, with a role that includes the action
// (WorkspaceRoleActions in coderd/database/db2sdk/db2sdk.go). It has no effect for users that are not
// members of the organization (acl_allow in coderd/rbac/policy.rego).
func (w *workspace) grants(u *user, action codersdk.RBACAction) bool {
	organization := w.template.OrganizationID
	if !slices.Contains(u.OrganizationIDs, organization) {
		return false
	}
	roles := []codersdk.WorkspaceRole{w.users[u.ID], w.groups[organization]}
	switch action {
	case codersdk.ActionRead, codersdk.ActionSSH, codersdk.ActionApplicationConnect, codersdk.ActionWorkspaceStart, codersdk.ActionWorkspaceStop:
		return slices.Contains(roles, codersdk.WorkspaceRoleUse) || slices.Contains(roles, codersdk.WorkspaceRoleAdmin)
	case codersdk.ActionDelete:
		return false
	}
	return slices.Contains(roles, codersdk.WorkspaceRoleAdmin)
}

// sharedWith returns the users and groups in random order, as Coder does. For a user the name is the
// full name.
func (s *Server) sharedWith(w *workspace) (out []codersdk.SharedWorkspaceActor) {
	if !s.has(sharesWorkspaces) {
		return nil
	}
	for id, role := range w.users {
		out = append(out, codersdk.SharedWorkspaceActor{
			ID: id, ActorType: codersdk.SharedWorkspaceActorTypeUser, Name: s.index.users[id].Name, Roles: []codersdk.WorkspaceRole{role},
		})
	}
	for id, role := range w.groups {
		name := "Everyone"
		if group := s.groups[id]; group != nil {
			name = group.Name
		}
		out = append(out, codersdk.SharedWorkspaceActor{
			ID: id, ActorType: codersdk.SharedWorkspaceActorTypeGroup, Name: name, Roles: []codersdk.WorkspaceRole{role},
		})
	}
	return out
}

// AddGroup adds a group without members to the default organization, as an administrator would.
func (s *Server) AddGroup(name string) uuid.UUID {
	if s.real != nil {
		return s.real.addGroup(name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := uuid.New()
	if s.groups == nil {
		s.groups = map[uuid.UUID]*codersdk.Group{}
	}
	s.groups[id] = &codersdk.Group{ID: id, Name: name, OrganizationID: s.organizations[0].ID}
	return id
}

// getGroup checks in the order of the route of groups in enterprise/coderd/coderd.go.
func (s *Server) getGroup(r *request) {
	s.needsLicensing()
	s.needsFeature(codersdk.FeatureTemplateRBAC)
	org := s.pathOrganization(r)
	for _, group := range s.groups {
		if group.OrganizationID == org.ID && group.Name == r.PathValue("group") {
			r.write(http.StatusOK, group)
			return
		}
	}
	notFound()
}

// patchACL checks in the order of patchWorkspaceACL in coderd/workspaces.go. The group of all members of the
// organization has the id of the organization.
func (s *Server) patchACL(r *request) {
	w := s.pathWorkspace(r)
	if !s.has(sharesWorkspaces) {
		refuse(http.StatusForbidden, "Workspace Sharing functionality requires enabling the 'workspace-sharing' experiment.")
	}
	body := read[codersdk.UpdateWorkspaceACL](r)
	var wrong []codersdk.ValidationError
	users := aclRoles(body.UserRoles, "user", func(id uuid.UUID) bool { return s.index.users[id] != nil }, &wrong)
	groups := aclRoles(body.GroupRoles, "group", func(id uuid.UUID) bool {
		return id == w.template.OrganizationID || s.groups[id] != nil
	}, &wrong)
	if len(wrong) > 0 {
		refuse(http.StatusBadRequest, "Invalid request to update workspace ACL", wrong...)
	}
	if w.owner != r.user && !w.grants(r.user, codersdk.ActionShare) {
		r.needsRole("owner")
	}
	for id, role := range users {
		w.share(&w.users, id, role)
	}
	for id, role := range groups {
		w.share(&w.groups, id, role)
	}
	r.w.WriteHeader(http.StatusNoContent)
}

// aclRoles validates a part of a change (coderd/rbac/acl/updatevalidator.go).
func aclRoles(
	roles map[string]codersdk.WorkspaceRole, kind string, exists func(uuid.UUID) bool, wrong *[]codersdk.ValidationError,
) map[uuid.UUID]codersdk.WorkspaceRole {
	out := map[uuid.UUID]codersdk.WorkspaceRole{}
	refused := func(format string, args ...any) {
		*wrong = append(*wrong, codersdk.ValidationError{Field: kind + "_roles", Detail: fmt.Sprintf(format, args...)})
	}
	for text, role := range roles {
		id, err := uuid.Parse(text)
		switch {
		case role != codersdk.WorkspaceRoleUse && role != codersdk.WorkspaceRoleAdmin && role != codersdk.WorkspaceRoleDeleted:
			refused("role %q is not a valid workspace role", role)
		case err != nil:
			refused("%v is not a valid UUID.", text)
		case role != codersdk.WorkspaceRoleDeleted && !exists(id):
			refused("%s with ID %v does not exist", kind, id)
		}
		out[id] = role
	}
	return out
}
