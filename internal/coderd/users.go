package coderd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
)

// Me is the name of the token's own user in requests for a user.
const Me = "me"

// NewUser describes a new account. Coder requires at least one organization, except for the first user.
type NewUser struct {
	Username, Email, Name, Password string
	// LoginType defaults to password. Accounts with another type have no password.
	LoginType       string
	OrganizationIDs []uuid.UUID
	// ServiceAccount creates an account that cannot log in. It has neither an email address nor a password. Coder 2.36 and later
	// with a license have them.
	ServiceAccount bool
}

// User is an account.
type User struct {
	ID       uuid.UUID
	Username string
	Email    string
	// Status is active, dormant (active again after the next use) or suspended.
	Status string
	// Roles are the site roles, not the roles in organizations.
	Roles []string
	// Name is the full name. It may be empty.
	Name string
	// LoginType is how the user logs in: password, oidc, github or none.
	LoginType string
	// ServiceAccount reports that it is an account that cannot log in. It has no email address.
	ServiceAccount bool
	CreatedAt      time.Time
	// LastSeenAt is zero for a user who has never logged in.
	LastSeenAt      time.Time
	OrganizationIDs []uuid.UUID
	// OrganizationRoles are the roles in each of these organizations. It is nil in lists, because
	// Coder's lists do not contain them.
	OrganizationRoles map[uuid.UUID][]string
}

// IsOwner reports whether the user has the role owner, which has all permissions in Coder.
func (u User) IsOwner() bool { return slices.Contains(u.Roles, codersdk.RoleOwner) }

// IsSuspended reports whether the user is suspended, so that Coder denies all access.
func (u User) IsSuspended() bool { return u.Status == string(codersdk.UserStatusSuspended) }

type userJSON struct {
	codersdk.User
	IsServiceAccount bool `json:"is_service_account"`
}

func newUser(u userJSON) User {
	return User{
		ID: u.ID, Username: boundName(u.Username), Email: boundName(u.Email), Status: boundName(string(u.Status)),
		Name: boundName(u.Name), LoginType: boundName(string(u.LoginType)), CreatedAt: u.CreatedAt, LastSeenAt: u.LastSeenAt,
		Roles: roleNames(u.Roles), OrganizationIDs: u.OrganizationIDs[:min(len(u.OrganizationIDs), maxTexts)],
		ServiceAccount: u.IsServiceAccount,
	}
}

// HasFirstUser reports whether any account exists. It needs no token.
func (c *Client) HasFirstUser(ctx context.Context) (bool, error) {
	var out bool
	err := c.callWithoutToken(ctx, "asking whether Coder has a first user", func(ctx context.Context) (err error) {
		out, err = c.sdk.HasFirstUser(ctx)
		return err
	})
	return out, err
}

// CreateFirstUser creates the first account, an owner. If any account exists, the error is a
// conflict.
func (c *Client) CreateFirstUser(ctx context.Context, user NewUser) error {
	return c.callWithoutToken(ctx, "creating the first user of Coder", func(ctx context.Context) error {
		_, err := c.sdk.CreateFirstUser(ctx, codersdk.CreateFirstUserRequest{
			Username: user.Username,
			Email:    user.Email,
			Name:     user.Name,
			Password: user.Password,
		})
		return err
	})
}

// Login returns a session token for a password. It does not change this client.
func (c *Client) Login(ctx context.Context, email, password string) (string, error) {
	var out string
	err := c.callWithoutToken(ctx, fmt.Sprintf("logging in to Coder as %q", email), func(ctx context.Context) error {
		res, err := c.sdk.LoginWithPassword(ctx, codersdk.LoginWithPasswordRequest{Email: email, Password: password})
		out = res.SessionToken
		return err
	})
	return out, err
}

// Logout ends the session of this client's token.
func (c *Client) Logout(ctx context.Context) error {
	return c.call(ctx, "logging out of Coder", func(ctx context.Context) error {
		// Coder's client ignores the response of this call.
		return c.request(ctx, http.MethodPost, "/api/v2/users/logout", nil, http.StatusOK, ignore)
	})
}

// Me returns the account of this client's token.
func (c *Client) Me(ctx context.Context) (User, error) { return c.UserByName(ctx, Me) }

// UserByName returns an account by its name, its id, or Me.
func (c *Client) UserByName(ctx context.Context, name string) (User, error) {
	return confirmNotFound(func() (User, error) {
		found, err := get[userJSON](ctx, c, fmt.Sprintf("reading user %q", name), "/api/v2/users/"+name, nil, name)
		return newUser(found), err
	})
}

// UsersByEmail returns all users with an email address, ignoring case.
func (c *Client) UsersByEmail(ctx context.Context, email string) ([]User, error) {
	op := fmt.Sprintf("looking for the user with the email %q", email)
	if strings.ContainsAny(email, ": \t\n\"") {
		// Coder would interpret it as another search filter.
		return nil, &Error{Op: op, StatusCode: http.StatusBadRequest, Message: "it is not an email address"}
	}
	var out []User
	err := c.call(ctx, op, func(ctx context.Context) error {
		// Coder searches for parts of the text, so it may find other users too.
		found, err := c.sdk.Users(ctx, codersdk.UsersRequest{SearchQuery: email, Pagination: codersdk.Pagination{Limit: 100}})
		for _, u := range found.Users {
			if strings.EqualFold(u.Email, email) {
				out = append(out, newUser(userJSON{User: u}))
			}
		}
		return err
	})
	return out, err
}

// CreateUser creates an account. If the name or the email exists, the error is a conflict.
func (c *Client) CreateUser(ctx context.Context, user NewUser) (User, error) {
	request := struct {
		codersdk.CreateUserRequestWithOrgs
		ServiceAccount bool `json:"service_account,omitempty"`
	}{ServiceAccount: user.ServiceAccount, CreateUserRequestWithOrgs: codersdk.CreateUserRequestWithOrgs{
		Username:        user.Username,
		Email:           user.Email,
		Name:            user.Name,
		Password:        user.Password,
		UserLoginType:   codersdk.LoginType(cmp.Or(user.LoginType, string(codersdk.LoginTypePassword))),
		OrganizationIDs: user.OrganizationIDs,
	}}
	made, err := post[userJSON](ctx, c, fmt.Sprintf("creating user %q", user.Username), "/api/v2/users", request, http.StatusCreated)
	return newUser(made), withoutSecret(err, user.Password)
}

// SetRoles sets the site roles of a user to exactly these roles, for example owner.
func (c *Client) SetRoles(ctx context.Context, user string, roles []string) error {
	return c.call(ctx, fmt.Sprintf("setting the roles of user %q", user), func(ctx context.Context) error {
		_, err := c.sdk.UpdateUserRoles(ctx, user, codersdk.UpdateRoles{Roles: append([]string{}, roles...)})
		return err
	}, user)
}

// MaxUserPage is the largest limit of UserPage.
const MaxUserPage = 10_000

// UserPage is a part of all users, sorted by name.
type UserPage struct {
	Users []User
	// Count is the number of users on all pages.
	Count int
}

// UserPage returns one page of all users. It never contains deleted users.
func (c *Client) UserPage(ctx context.Context, offset, limit int) (UserPage, error) {
	found, err := get[struct {
		Users []userJSON `json:"users"`
		Count int        `json:"count"`
	}](ctx, c, "listing the users", "/api/v2/users", map[string]string{
		"offset": strconv.Itoa(max(0, offset)), "limit": strconv.Itoa(max(1, min(limit, MaxUserPage))),
	})
	page := UserPage{Count: found.Count}
	for _, u := range found.Users {
		page.Users = append(page.Users, newUser(u))
	}
	return page, err
}

// UserByID returns a user with the roles in each organization. For a deleted user the error is 410
// Gone.
func (c *Client) UserByID(ctx context.Context, id uuid.UUID) (User, error) {
	found, err := c.UserByName(ctx, id.String())
	if err != nil {
		return found, err
	}
	// A lookup by id also finds deleted users, without marking them. A lookup by name does not.
	named, err := c.UserByName(ctx, found.Username)
	if IsNotFound(err) || err == nil && named.ID != id {
		again, err := c.UserByName(ctx, id.String())
		if err != nil || again.Username != found.Username {
			// The user was renamed meanwhile.
			return again, err
		}
		return User{}, &Error{
			Op: fmt.Sprintf("reading user %q", found.Username), StatusCode: http.StatusGone, Message: "the user was deleted",
		}
	}
	if err != nil {
		return found, err
	}
	named.OrganizationRoles = map[uuid.UUID][]string{}
	err = c.call(ctx, fmt.Sprintf("reading the roles of user %q", named.Username), func(ctx context.Context) error {
		roles, err := c.sdk.UserRoles(ctx, id.String())
		for _, organization := range named.OrganizationIDs {
			named.OrganizationRoles[organization] = boundRoles(roles.OrganizationRoles[organization])
		}
		return err
	})
	return named, err
}

// Members returns the members of an organization and their roles in it.
func (c *Client) Members(ctx context.Context, organization uuid.UUID) (map[uuid.UUID][]string, error) {
	op, path := fmt.Sprintf("listing the members of organization %s", organization), fmt.Sprintf("/api/v2/organizations/%s/members", organization)
	found, err := get[[]codersdk.OrganizationMemberWithUserData](ctx, c, op, path, nil)
	members := map[uuid.UUID][]string{}
	for i := range found {
		members[found[i].UserID] = roleNames(found[i].Roles)
	}
	return members, err
}

// roleNames returns the names of roles, sorted. It omits the role member.
func roleNames(roles []codersdk.SlimRole) []string {
	names := make([]string, 0, len(roles))
	for _, role := range roles {
		names = append(names, role.Name)
	}
	return boundRoles(names)
}

func boundRoles(names []string) []string {
	var out []string
	for _, name := range names[:min(len(names), maxTexts)] {
		// In some responses Coder appends the organization's id to a role of an organization.
		name, _, _ = strings.Cut(name, ":")
		// Every user has these.
		if name != "member" && name != "organization-member" {
			out = append(out, boundName(name))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// SetFullName changes the full name of a user.
func (c *Client) SetFullName(ctx context.Context, user User, name string) error {
	return c.call(ctx, fmt.Sprintf("setting the name of user %q", user.Username), func(ctx context.Context) error {
		_, err := c.sdk.UpdateUserProfile(ctx, user.ID.String(), codersdk.UpdateUserProfileRequest{Username: user.Username, Name: name})
		return err
	})
}

// SetPassword changes the password of a user, which ends all sessions and revokes all tokens. If
// the user already has this password, it returns no error.
func (c *Client) SetPassword(ctx context.Context, user User, password string) error {
	err := change(ctx, c, fmt.Sprintf("setting the password of user %q", user.Username), c.sdk.UpdateUserPassword,
		user.ID.String(), codersdk.UpdateUserPasswordRequest{Password: password})
	if IsInvalid(err) && strings.Contains(err.Error(), "New password cannot match old password") {
		return nil
	}
	return withoutSecret(err, password)
}

// PasswordProblem returns why Coder does not accept a password, or "". It changes nothing.
func (c *Client) PasswordProblem(ctx context.Context, password string) (string, error) {
	ctx = WithBeforeChange(WithActor(ctx, nil), func(context.Context) error { return nil })
	answer, err := post[codersdk.ValidateUserPasswordResponse](ctx, c, "checking a password", "/api/v2/users/validate-password",
		codersdk.ValidateUserPasswordRequest{Password: password}, http.StatusOK)
	if err != nil || answer.Valid {
		return "", withoutSecret(err, password)
	}
	return boundText(strings.ReplaceAll(answer.Details, password, "...")), nil
}

// SetSuspended suspends a user, or ends the suspension.
func (c *Client) SetSuspended(ctx context.Context, user User, suspended bool) error {
	status := codersdk.UserStatusActive
	if suspended {
		status = codersdk.UserStatusSuspended
	}
	return c.call(ctx, fmt.Sprintf("making %s user %q", status, user.Username), func(ctx context.Context) error {
		_, err := c.sdk.UpdateUserStatus(ctx, user.ID.String(), status)
		return err
	})
}

// DeleteUser deletes a user. If the user has workspaces, the error is a conflict.
func (c *Client) DeleteUser(ctx context.Context, user User) error {
	err := c.call(ctx, fmt.Sprintf("deleting user %q", user.Username), func(ctx context.Context) error {
		return c.sdk.DeleteUser(ctx, user.ID)
	})
	if e, ok := errors.AsType[*Error](err); ok && e.StatusCode == http.StatusExpectationFailed {
		e.StatusCode = http.StatusConflict
	}
	return err
}

// AddMember adds a user to an organization.
func (c *Client) AddMember(ctx context.Context, organization uuid.UUID, user User) error {
	return c.call(ctx, fmt.Sprintf("adding to an organization user %q", user.Username), func(ctx context.Context) error {
		_, err := c.sdk.PostOrganizationMember(ctx, organization, user.ID.String())
		return err
	})
}

// RemoveMember removes a user from an organization.
func (c *Client) RemoveMember(ctx context.Context, organization uuid.UUID, user User) error {
	return change(ctx, c, fmt.Sprintf("removing from an organization user %q", user.Username), c.sdk.DeleteOrganizationMember,
		organization, user.ID.String())
}

// SetMemberRoles sets the roles of a user in an organization to exactly these roles.
func (c *Client) SetMemberRoles(ctx context.Context, organization uuid.UUID, user User, roles []string) error {
	op := fmt.Sprintf("setting the roles in an organization of user %q", user.Username)
	return c.call(ctx, op, func(ctx context.Context) error {
		wanted := codersdk.UpdateRoles{Roles: append([]string{}, roles...)}
		_, err := c.sdk.UpdateOrganizationMemberRoles(ctx, organization, user.ID.String(), wanted)
		return err
	})
}
