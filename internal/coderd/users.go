package coderd

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
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

// userJSON is a user in Coder's API.
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
	err := c.callWithoutToken(ctx, "asking whether Coder has a first user", func(ctx context.Context) error {
		var err error
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
	op := fmt.Sprintf("reading user %q", name)
	if err := checkNames(op, name); err != nil {
		return User{}, err
	}
	return confirmNotFound(func() (User, error) {
		found, err := get[userJSON](ctx, c, op, "/api/v2/users/"+name, nil)
		return newUser(found), err
	})
}

// usersFound is the maximum number of users in a search. Coder searches for parts of the text, so
// it may find other users too.
const usersFound = 100

// UsersByEmail returns all users with an email address, ignoring case.
func (c *Client) UsersByEmail(ctx context.Context, email string) ([]User, error) {
	op := fmt.Sprintf("looking for the user with the email %q", email)
	if strings.ContainsAny(email, ": \t\n\"") {
		// Coder would interpret it as another search filter.
		return nil, &Error{Op: op, StatusCode: http.StatusBadRequest, Message: "it is not an email address"}
	}
	var out []User
	err := c.call(ctx, op, func(ctx context.Context) error {
		found, err := c.sdk.Users(ctx, codersdk.UsersRequest{SearchQuery: email, Pagination: codersdk.Pagination{Limit: usersFound}})
		for _, u := range found.Users {
			if strings.EqualFold(u.Email, email) {
				out = append(out, newUser(userJSON{User: u}))
			}
		}
		return err
	})
	return out, err
}

// newUserJSON is the request for a new user.
type newUserJSON struct {
	codersdk.CreateUserRequestWithOrgs
	ServiceAccount bool `json:"service_account,omitempty"`
}

// CreateUser creates an account. If the name or the email exists, the error is a conflict.
func (c *Client) CreateUser(ctx context.Context, user NewUser) (User, error) {
	request := newUserJSON{ServiceAccount: user.ServiceAccount, CreateUserRequestWithOrgs: codersdk.CreateUserRequestWithOrgs{
		Username:        user.Username,
		Email:           user.Email,
		Name:            user.Name,
		Password:        user.Password,
		UserLoginType:   codersdk.LoginType(cmp.Or(user.LoginType, string(codersdk.LoginTypePassword))),
		OrganizationIDs: user.OrganizationIDs,
	}}
	var made userJSON
	err := c.call(ctx, fmt.Sprintf("creating user %q", user.Username), func(ctx context.Context) error {
		return c.request(ctx, http.MethodPost, "/api/v2/users", request, http.StatusCreated, into(&made))
	})
	return newUser(made), withoutSecret(err, user.Password)
}

// SetRoles sets the site roles of a user to exactly these roles, for example owner.
func (c *Client) SetRoles(ctx context.Context, user string, roles []string) error {
	op := fmt.Sprintf("setting the roles of user %q", user)
	if err := checkNames(op, user); err != nil {
		return err
	}
	return c.call(ctx, op, func(ctx context.Context) error {
		_, err := c.sdk.UpdateUserRoles(ctx, user, codersdk.UpdateRoles{Roles: append([]string{}, roles...)})
		return err
	})
}
