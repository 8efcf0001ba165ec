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

// Me stands for the user of the token wherever a user is asked for.
const Me = "me"

// FirstUser is the account that a fresh deployment is given.
type FirstUser struct {
	Username, Email, Name, Password string
}

// NewUser is an account to make. Coder wants one organization at least.
type NewUser struct {
	Username, Email, Name, Password string
	// LoginType is password where it is empty. The other types have no password.
	LoginType       string
	OrganizationIDs []uuid.UUID
}

// User is an account.
type User struct {
	ID       uuid.UUID
	Username string
	Email    string
	// Status is active, dormant (it becomes active when it is used) or suspended.
	Status string
	// Roles are those of the deployment, not those of an organization.
	Roles []string
	// Name is the full name, and may be empty.
	Name string
	// LoginType is how the user logs in: password, oidc, github or none.
	LoginType string
	CreatedAt time.Time
	// LastSeenAt is zero for a user who never logged in.
	LastSeenAt      time.Time
	OrganizationIDs []uuid.UUID
	// OrganizationRoles are the roles in each of these organizations. It is nil in lists,
	// because Coder does not say them there.
	OrganizationRoles map[uuid.UUID][]string
}

// IsOwner reports whether the user may do everything in Coder.
func (u User) IsOwner() bool { return slices.Contains(u.Roles, codersdk.RoleOwner) }

// IsSuspended reports whether Coder refuses the user everything.
func (u User) IsSuspended() bool { return u.Status == string(codersdk.UserStatusSuspended) }

func newUser(u codersdk.User) User {
	return User{
		ID: u.ID, Username: boundName(u.Username), Email: boundName(u.Email), Status: boundName(string(u.Status)),
		Name: boundName(u.Name), LoginType: boundName(string(u.LoginType)), CreatedAt: u.CreatedAt, LastSeenAt: u.LastSeenAt,
		Roles: roleNames(u.Roles), OrganizationIDs: u.OrganizationIDs[:min(len(u.OrganizationIDs), maxTexts)],
	}
}

// HasFirstUser says whether anybody has an account yet. It needs no token.
func (c *Client) HasFirstUser(ctx context.Context) (bool, error) {
	var out bool
	err := c.callWithoutToken(ctx, "asking whether Coder has a first user", func(ctx context.Context) error {
		var err error
		out, err = c.sdk.HasFirstUser(ctx)
		return err
	})
	return out, err
}

// CreateFirstUser makes the first account, an owner. Once there is any account
// it is a conflict.
func (c *Client) CreateFirstUser(ctx context.Context, user FirstUser) error {
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

// Login gives a session token for a password. It does not change this client.
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
		// Coder's client does not look at the answer of this call.
		res, err := c.sdk.Request(ctx, http.MethodPost, "/api/v2/users/logout", nil)
		if err != nil {
			return err
		}
		if res.StatusCode != http.StatusOK {
			return codersdk.ReadBodyAsError(res)
		}
		return res.Body.Close()
	})
}

// Me is the account of this client's token.
func (c *Client) Me(ctx context.Context) (User, error) { return c.UserByName(ctx, Me) }

// UserByName reads an account by its name, its id, or Me.
func (c *Client) UserByName(ctx context.Context, name string) (User, error) {
	op := fmt.Sprintf("reading user %q", name)
	if err := checkNames(op, name); err != nil {
		return User{}, err
	}
	var out User
	err := confirmNotFound(func() error {
		return c.call(ctx, op, func(ctx context.Context) error {
			u, err := c.sdk.User(ctx, name)
			out = newUser(u)
			return err
		})
	})
	return out, err
}

// usersFound is how many users a search returns at most. Coder searches for a part of the
// text, so it may find more than is meant.
const usersFound = 100

// UsersByEmail returns all users with an email address, upper and lower case being the
// same.
func (c *Client) UsersByEmail(ctx context.Context, email string) ([]User, error) {
	op := fmt.Sprintf("looking for the user with the email %q", email)
	if strings.ContainsAny(email, ": \t\n\"") {
		// Coder would read it as another question.
		return nil, &Error{Op: op, StatusCode: http.StatusBadRequest, Message: "it is no email address"}
	}
	var out []User
	err := c.call(ctx, op, func(ctx context.Context) error {
		found, err := c.sdk.Users(ctx, codersdk.UsersRequest{SearchQuery: email, Pagination: codersdk.Pagination{Limit: usersFound}})
		for _, u := range found.Users {
			if strings.EqualFold(u.Email, email) {
				out = append(out, newUser(u))
			}
		}
		return err
	})
	return out, err
}

// CreateUser makes an account. A name or an email that exists is a conflict.
func (c *Client) CreateUser(ctx context.Context, user NewUser) (User, error) {
	var out User
	err := c.call(ctx, fmt.Sprintf("creating user %q", user.Username), func(ctx context.Context) error {
		u, err := c.sdk.CreateUserWithOrgs(ctx, codersdk.CreateUserRequestWithOrgs{
			Username:        user.Username,
			Email:           user.Email,
			Name:            user.Name,
			Password:        user.Password,
			UserLoginType:   codersdk.LoginType(cmp.Or(user.LoginType, string(codersdk.LoginTypePassword))),
			OrganizationIDs: user.OrganizationIDs,
		})
		out = newUser(u)
		return err
	})
	return out, withoutSecret(err, user.Password)
}

// SetRoles gives a user exactly these roles of the deployment, for example
// owner.
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
