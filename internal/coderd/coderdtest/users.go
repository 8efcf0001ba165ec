package coderdtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

type user struct {
	codersdk.User
	sortKey  string
	password string
	// service reports that it is a service account.
	service bool
	roles   []string
	// orgRoles are the roles in each organization.
	orgRoles map[uuid.UUID][]string
}

// AddUser adds a user with the password "<username>-Passw0rd!" and returns a token of the user that
// does not expire. The roles are those of the deployment, for example owner.
func (s *Server) AddUser(username string, roles ...string) (token string) {
	if s.real != nil {
		return s.real.addUser(username, roles)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.insertUser(username, username+"@example.com", username+"-Passw0rd!", s.organizations[0].ID)
	u.roles = roles
	return s.insertKey(u, "", codersdk.LoginTypeToken, 100*365*24*time.Hour).value()
}

// changeUser calls f with a user, if there is one.
func (s *Server) changeUser(username string, f func(*user)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.userNamed(username); u != nil {
		f(u)
	}
}

// SuspendUser makes the server refuse all requests of a user.
func (s *Server) SuspendUser(username string) {
	s.changeUser(username, func(u *user) { u.suspend(true) })
}

func (u *user) suspend(suspended bool) {
	u.Status = codersdk.UserStatusActive
	if suspended {
		u.Status = codersdk.UserStatusSuspended
	}
}

// HasRole reports whether a user has a role of the deployment.
func (s *Server) HasRole(username, role string) (has bool) {
	s.changeUser(username, func(u *user) { has = u.has(role) })
	return has
}

// Usernames returns the users in the order in which they were created.
func (s *Server) Usernames() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, u := range s.users {
		out = append(out, u.Username)
	}
	return out
}

// insertUser adds a user who logs in with a password.
func (s *Server) insertUser(username, email, password string, orgs ...uuid.UUID) *user {
	now := s.now()
	u := &user{sortKey: strings.ToLower(username), password: password}
	u.ID, u.Username, u.Email, u.CreatedAt, u.UpdatedAt = uuid.New(), username, email, now, now
	if username == prebuilds {
		// Coder's account for workspaces that it builds in advance always has this id.
		u.ID = uuid.MustParse("c42fdf75-3097-471c-8c33-fb52454d81c0")
	}
	u.Status, u.LoginType, u.OrganizationIDs = codersdk.UserStatusActive, codersdk.LoginTypePassword, orgs
	s.users = append(s.users, u)
	s.index.users[u.ID], s.index.usernames[u.sortKey] = u, u
	return u
}

func (s *Server) userNamed(name string) *user {
	return s.index.usernames[strings.ToLower(name)]
}

func (s *Server) userWithEmail(email string) *user {
	return first(s.users, func(u *user) bool { return strings.EqualFold(u.Email, email) })
}

// pathUser returns the user in the path: me, an id or a name.
func (s *Server) pathUser(r *request) *user {
	query := r.PathValue("user")
	if query == codersdk.Me {
		return r.user
	}
	found := s.userNamed(query)
	if id, err := uuid.Parse(query); err == nil {
		found = s.index.users[id]
	}
	if found == nil || !r.user.seesUser(found) {
		if s.has(unknownUserNotFound) {
			notFound()
		}
		refuseDetailed(http.StatusBadRequest, `"user" must be an existing uuid or username.`, "queried user=\""+query+"\"")
	}
	return found
}

func (u *user) has(role string) bool { return slices.Contains(u.roles, role) }

func (r *request) needsRole(roles ...string) {
	for _, role := range roles {
		if r.user.has(role) {
			return
		}
	}
	refuseDetailed(http.StatusForbidden, "Forbidden.",
		"You don't have permission to view this content. If you believe this is a mistake, please contact your administrator or try signing in with different credentials.")
}

// userJSON is a user in Coder's API. Releases without service accounts have no such field.
type userJSON struct {
	codersdk.User
	IsServiceAccount bool `json:"is_service_account,omitempty"`
}

func (u *user) sdk() userJSON {
	out := userJSON{u.User, u.service}
	out.Roles = []codersdk.SlimRole{}
	for _, role := range u.roles {
		out.Roles = append(out.Roles, codersdk.SlimRole{Name: role, DisplayName: role})
	}
	return out
}

// getUsers searches users by a part of their name or email address, as Coder does: sorted by name,
// in pages. A caller that may not see other users finds only itself.
func (s *Server) getUsers(r *request) {
	q := strings.ToLower(r.URL.Query().Get("q"))
	out := struct {
		Users []userJSON `json:"users"`
		Count int        `json:"count"`
	}{Users: []userJSON{}}
	all := slices.Clone(s.users)
	slices.SortFunc(all, func(a, b *user) int { return strings.Compare(a.sortKey, b.sortKey) })
	offset, limit := r.positive("offset"), r.positive("limit")
	for _, u := range all {
		if !r.user.seesUser(u) ||
			!strings.Contains(u.sortKey, q) && !strings.Contains(strings.ToLower(u.Email), q) {
			continue
		}
		out.Count++
		if out.Count > offset && (limit == 0 || len(out.Users) < limit) {
			out.Users = append(out.Users, u.sdk())
		}
	}
	if len(out.Users) == 0 {
		out.Count = 0
	}
	r.write(http.StatusOK, out)
}

func (s *Server) getFirstUser(r *request) {
	if len(s.users) == 0 {
		refuse(http.StatusNotFound, "The initial user has not been created!")
	}
	r.write(http.StatusOK, codersdk.Response{Message: "The initial user has already been created!"})
}

func (s *Server) postFirstUser(r *request) {
	body := read[codersdk.CreateFirstUserRequest](r)
	var v validation
	v.email(body.Email)
	v.name("username", "username", body.Username)
	v.check(codersdk.UserRealNameValid(body.Name) == nil, "name", "user_real_name", body.Name)
	v.check(body.Password != "", "password", "required", body.Password)
	v.refuse()
	if len(s.users) > 0 {
		refuse(http.StatusConflict, "The initial user has already been created.")
	}
	checkPassword(body.Password)
	org := s.organizations[0].ID
	u := s.insertUser(body.Username, body.Email, body.Password, org)
	u.Name, u.roles = body.Name, []string{"owner"}
	r.write(http.StatusCreated, codersdk.CreateFirstUserResponse{UserID: u.ID, OrganizationID: org})
}

func (s *Server) postUser(r *request) {
	r.needsRole("owner", "user-admin")
	raw := read[json.RawMessage](r)
	var body codersdk.CreateUserRequestWithOrgs
	var more struct {
		ServiceAccount bool `json:"service_account"`
	}
	if json.Unmarshal(raw, &body) != nil || json.Unmarshal(raw, &more) != nil {
		refuse(http.StatusBadRequest, "Request body must be valid JSON.")
	}
	service := more.ServiceAccount && s.has(serviceAccounts)
	var v validation
	if !service || body.Email != "" {
		v.email(body.Email)
	}
	v.name("username", "username", body.Username)
	v.check(codersdk.UserRealNameValid(body.Name) == nil, "name", "user_real_name", body.Name)
	v.refuse()
	if service {
		s.checkServiceAccount(body)
		body.UserLoginType = codersdk.LoginTypeNone
	}
	if s.noPasswords && (body.UserLoginType == "" || body.UserLoginType == codersdk.LoginTypePassword) {
		refuse(http.StatusForbidden, "Password based authentication is disabled! Unable to provision new users with password authentication.")
	}
	if len(body.OrganizationIDs) == 0 {
		refuseDetailed(http.StatusBadRequest,
			"No organization specified to place the user as a member of. It is required to specify at least one organization id to place the user in.",
			"required at least 1 value for the array 'organization_ids'",
			codersdk.ValidationError{Field: "organization_ids", Detail: "Missing values, this cannot be empty"})
	}
	if s.userNamed(body.Username) != nil || body.Email != "" && s.userWithEmail(body.Email) != nil {
		refuse(http.StatusConflict, "User already exists.")
	}
	for i, id := range body.OrganizationIDs {
		if id == uuid.Nil {
			body.OrganizationIDs[i] = s.organizations[0].ID
		} else if s.organizationByID(id) == nil {
			refuse(http.StatusNotFound, "Organization does not exist with the provided id \""+id.String()+"\".")
		}
	}
	loginType := cmp.Or(body.UserLoginType, codersdk.LoginTypePassword)
	s.checkLoginType(loginType, body.Password, service)
	u := s.insertUser(body.Username, body.Email, body.Password, body.OrganizationIDs...)
	u.Name, u.LoginType, u.service = body.Name, loginType, service
	r.write(http.StatusCreated, u.sdk())
}

// checkLoginType refuses a login type of a new user as Coder does.
func (s *Server) checkLoginType(loginType codersdk.LoginType, password string, service bool) {
	switch {
	case loginType == codersdk.LoginTypePassword:
		checkPassword(password)
	case password != "":
		refuse(http.StatusBadRequest, fmt.Sprintf("Password cannot be set for non-password (%q) authentication.", loginType))
	case loginType == codersdk.LoginTypeNone && s.has(serviceAccounts) && !service:
		refuse(http.StatusBadRequest, "Login type 'none' requires a service account.")
	case loginType == codersdk.LoginTypeOIDC && !s.oidc:
		refuse(http.StatusBadRequest, "You must configure OIDC before creating OIDC users.")
	}
}

// checkServiceAccount refuses a request for a service account as Coder does.
func (s *Server) checkServiceAccount(body codersdk.CreateUserRequestWithOrgs) {
	switch {
	case body.UserLoginType != "" && body.UserLoginType != codersdk.LoginTypeNone:
		refuse(http.StatusBadRequest, "Service accounts must use login type 'none'.")
	case body.Password != "":
		refuse(http.StatusBadRequest, "Password cannot be set for service accounts.")
	case body.Email != "":
		refuse(http.StatusBadRequest, "Email cannot be set for service accounts.")
	}
	s.needsFeature(featureServiceAccounts)
}

func (s *Server) putRoles(r *request) {
	u := s.pathUser(r)
	if u == r.user {
		refuse(http.StatusBadRequest, "You cannot change your own roles.")
	}
	r.needsRole("owner", "user-admin")
	body := read[codersdk.UpdateRoles](r)
	if slices.Contains(body.Roles, "owner") != u.has("owner") {
		r.needsRole("owner")
	}
	for _, role := range body.Roles {
		if !slices.Contains([]string{"owner", "user-admin", "template-admin", "auditor"}, role) {
			refuse(http.StatusBadRequest, fmt.Sprintf("%q is not a supported role", role))
		}
	}
	u.roles = append([]string{}, body.Roles...)
	r.write(http.StatusOK, u.sdk())
}
