package coderdtest

import (
	"slices"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// The objects that a user may see, as Coder decides (coderd/rbac/roles.go of v2.30): lists omit the
// others, and requests for one of them are answered as if it did not exist.

// in reports whether a user has one of the roles in an organization.
func (u *user) in(organization uuid.UUID, roles ...string) bool {
	return slices.ContainsFunc(roles, func(role string) bool { return slices.Contains(u.orgRoles[organization], role) })
}

// hasAny reports whether a user has one of the roles of the deployment.
func (u *user) hasAny(roles ...string) bool { return slices.ContainsFunc(roles, u.has) }

func (u *user) seesUser(other *user) bool {
	if u == other || u.hasAny("owner", "user-admin", "template-admin", "auditor") {
		return true
	}
	// Roles of an organization that manage members see all users.
	return slices.ContainsFunc(u.OrganizationIDs, func(id uuid.UUID) bool { return u.in(id, "organization-admin", "organization-user-admin") })
}

func (u *user) seesOrganization(id uuid.UUID) bool {
	return u.hasAny("owner", "user-admin", "template-admin", "auditor") || slices.Contains(u.OrganizationIDs, id)
}

// seesTemplate is true for the members of the organization, as long as nobody restricts the template.
func (u *user) seesTemplate(t *template) bool {
	return u.hasAny("owner", "template-admin", "auditor") || slices.Contains(u.OrganizationIDs, t.OrganizationID)
}

func (u *user) seesWorkspace(w *workspace) bool {
	return w.owner == u || u.hasAny("owner", "template-admin") || w.grants(u, codersdk.ActionRead) ||
		u.in(w.template.OrganizationID, "organization-admin", "organization-template-admin")
}

// seesAll reports whether a user may read all objects of a type.
func (u *user) seesAll(kind codersdk.RBACResource) bool {
	switch kind {
	case codersdk.ResourceUser:
		return u.seesUser(nil)
	case codersdk.ResourceTemplate:
		return u.hasAny("owner", "template-admin", "auditor")
	case codersdk.ResourceWorkspace:
		return u.hasAny("owner", "template-admin")
	}
	return u.has("owner")
}
