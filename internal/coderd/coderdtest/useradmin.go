package coderdtest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// WithOIDC is a Coder that has single sign-on.
func WithOIDC() Option { return func(s *Server) { s.oidc = true } }

// UserState is what a test sees of a user.
type UserState struct {
	ID                               uuid.UUID
	Email, Name, Password, LoginType string
	Suspended, ServiceAccount        bool
	Roles                            []string
	// Organizations are the names of the organizations with the roles in them, for example
	// "coder [organization-admin]".
	Organizations []string
}

// User returns a user that is not deleted, and whether there is one.
func (s *Server) User(username string) (state UserState, found bool) {
	s.changeUser(username, func(u *user) {
		found = true
		state = UserState{
			ID: u.ID, Email: u.Email, Name: u.Name, Password: u.password, LoginType: string(u.LoginType),
			Suspended: u.Status == codersdk.UserStatusSuspended, ServiceAccount: u.service, Roles: slices.Clone(u.roles),
		}
		for _, id := range u.OrganizationIDs {
			state.Organizations = append(state.Organizations, fmt.Sprint(s.organizationByID(id).Name, " ", u.orgRoles[id]))
		}
		slices.Sort(state.Organizations)
	})
	return state, found
}

// EditUser is somebody changing a user in Coder's own interface.
func (s *Server) EditUser(username string, name string, suspended bool, roles ...string) {
	s.changeUser(username, func(u *user) {
		u.suspend(suspended)
		u.Name, u.roles = name, roles
	})
}

// SetEmail sets the email address of a user, which may be the same as another user's.
func (s *Server) SetEmail(username, email string) {
	s.changeUser(username, func(u *user) { u.Email = email })
}

// SetLoginType sets how a user logs in, as the migration to a later release does.
func (s *Server) SetLoginType(username, loginType string) {
	s.changeUser(username, func(u *user) { u.LoginType = codersdk.LoginType(loginType) })
}

// SetMember is somebody making a user a member of an organization with these roles.
func (s *Server) SetMember(username, organization string, roles ...string) {
	s.changeUser(username, func(u *user) {
		if org := s.organizationNamed(organization); org != nil {
			u.join(org.ID)
			u.orgRoles[org.ID] = roles
		}
	})
}

// SeeUser is a user who does something in Coder.
func (s *Server) SeeUser(username string, at time.Time) {
	s.changeUser(username, func(u *user) { u.LastSeenAt = at })
}

// RenameUser is somebody giving a user another name.
func (s *Server) RenameUser(username, to string) {
	s.changeUser(username, func(u *user) { s.renameUser(u, to) })
}

// RemoveUser is somebody deleting a user.
func (s *Server) RemoveUser(username string) { s.changeUser(username, s.removeUser) }

// ForgetUser removes a user from the database, so that it is not found any more. Coder itself only marks
// it as deleted.
func (s *Server) ForgetUser(username string) {
	s.changeUser(username, func(u *user) {
		s.removeUser(u)
		delete(s.index.users, u.ID)
	})
}

func (s *Server) renameUser(u *user, to string) {
	delete(s.index.usernames, u.sortKey)
	u.Username, u.sortKey = to, strings.ToLower(to)
	s.index.usernames[u.sortKey] = u
}

// removeUser keeps the user under its id, as Coder does.
func (s *Server) removeUser(u *user) {
	delete(s.index.usernames, u.sortKey)
	s.users = slices.DeleteFunc(s.users, func(o *user) bool { return o == u })
	s.keys = slices.DeleteFunc(s.keys, func(k *key) bool { return k.owner == u })
}

func (u *user) join(org uuid.UUID) {
	if !slices.Contains(u.OrganizationIDs, org) {
		u.OrganizationIDs = append(slices.Clone(u.OrganizationIDs), org)
	}
	if u.orgRoles == nil {
		u.orgRoles = map[uuid.UUID][]string{}
	}
}

func (s *Server) putProfile(r *request) {
	u := s.pathUser(r)
	body := read[codersdk.UpdateUserProfileRequest](r)
	if body.Username != u.Username && !r.user.has("owner") && !r.user.has("user-admin") {
		// Users cannot rename themselves.
		notFound()
	}
	var v validation
	v.name("username", "username", body.Username)
	v.check(codersdk.UserRealNameValid(body.Name) == nil, "name", "user_real_name", body.Name)
	v.refuse()
	if other := s.userNamed(body.Username); other != nil && other != u {
		refuse(http.StatusConflict, "A user with this username already exists.")
	}
	u.Name = body.Name
	if body.Username != u.Username {
		s.renameUser(u, body.Username)
	}
	r.write(http.StatusOK, u.sdk())
}

func (s *Server) putPassword(r *request) {
	u := s.pathUser(r)
	body := read[codersdk.UpdateUserPasswordRequest](r)
	if u.LoginType != codersdk.LoginTypePassword {
		refuse(http.StatusBadRequest, "Users without password login type cannot change their password.")
	}
	checkPassword(body.Password)
	if body.Password == u.password {
		refuse(http.StatusBadRequest, "New password cannot match old password.")
	}
	u.password = body.Password
	s.keys = slices.DeleteFunc(s.keys, func(k *key) bool { return k.owner == u })
	r.w.WriteHeader(http.StatusNoContent)
}

func (s *Server) putStatus(r *request, suspended bool) {
	u := s.pathUser(r)
	r.needsRole("owner", "user-admin")
	switch {
	case suspended && u == r.user:
		refuse(http.StatusBadRequest, "You cannot suspend yourself.")
	case suspended && u.has("owner"):
		refuse(http.StatusBadRequest, `You cannot suspend a user with the "owner" role. You must remove the role first.`)
	}
	u.suspend(suspended)
	r.write(http.StatusOK, u.sdk())
}

func (s *Server) deleteUser(r *request) {
	u := s.pathUser(r)
	if u == r.user {
		refuse(http.StatusForbidden, "You cannot delete yourself!")
	}
	for _, w := range s.index.names {
		if w.owner == u {
			refuse(http.StatusExpectationFailed, "You cannot delete a user that has workspaces. Delete their workspaces and try again!")
		}
	}
	r.needsRole("owner", "user-admin")
	s.removeUser(u)
	r.write(http.StatusOK, codersdk.Response{Message: "User has been deleted!"})
}

func (s *Server) getRoles(r *request) {
	u := s.pathUser(r)
	out := codersdk.UserRoles{Roles: append([]string{}, u.roles...), OrganizationRoles: map[uuid.UUID][]string{}}
	for _, id := range u.OrganizationIDs {
		out.OrganizationRoles[id] = append([]string{}, u.orgRoles[id]...)
	}
	r.write(http.StatusOK, out)
}

func (s *Server) getMembers(r *request) {
	org := s.pathOrganization(r)
	out := []codersdk.OrganizationMemberWithUserData{}
	for _, u := range s.users {
		if slices.Contains(u.OrganizationIDs, org.ID) {
			out = append(out, codersdk.OrganizationMemberWithUserData{Username: u.Username, Email: u.Email, OrganizationMember: u.member(org.ID)})
		}
	}
	r.write(http.StatusOK, out)
}

func (u *user) member(org uuid.UUID) codersdk.OrganizationMember {
	out := codersdk.OrganizationMember{UserID: u.ID, OrganizationID: org, Roles: []codersdk.SlimRole{}}
	for _, role := range u.orgRoles[org] {
		out.Roles = append(out.Roles, codersdk.SlimRole{Name: role, OrganizationID: org.String()})
	}
	return out
}

func (s *Server) postMember(r *request) {
	org, u := s.pathOrganization(r), s.pathUser(r)
	r.needsRole("owner", "user-admin")
	if slices.Contains(u.OrganizationIDs, org.ID) {
		refuse(http.StatusBadRequest, "User is already an organization member")
	}
	u.join(org.ID)
	r.write(http.StatusOK, u.member(org.ID))
}

// pathMember is a user who is a member of the organization.
func (s *Server) pathMember(r *request, org uuid.UUID) *user {
	u := s.pathUser(r)
	if !slices.Contains(u.OrganizationIDs, org) {
		notFound()
	}
	r.needsRole("owner", "user-admin")
	return u
}

func (s *Server) deleteMember(r *request) {
	org := s.pathOrganization(r)
	u := s.pathMember(r, org.ID)
	u.OrganizationIDs = slices.DeleteFunc(slices.Clone(u.OrganizationIDs), func(id uuid.UUID) bool { return id == org.ID })
	delete(u.orgRoles, org.ID)
	r.w.WriteHeader(http.StatusNoContent)
}

func (s *Server) putMemberRoles(r *request) {
	org := s.pathOrganization(r)
	u := s.pathMember(r, org.ID)
	body := read[codersdk.UpdateRoles](r)
	for _, role := range body.Roles {
		if !strings.HasPrefix(role, "organization-") {
			refuse(http.StatusBadRequest, fmt.Sprintf("%q is not a supported role", role))
		}
	}
	u.join(org.ID)
	u.orgRoles[org.ID] = append([]string{}, body.Roles...)
	r.write(http.StatusOK, u.member(org.ID))
}
