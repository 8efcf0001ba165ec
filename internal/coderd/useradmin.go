package coderd

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// MaxUserPage is the largest limit of UserPage.
const MaxUserPage = 10_000

// UserPage is a part of all users, sorted by name.
type UserPage struct {
	Users []User
	// Count is how many there are on all pages together.
	Count int
}

// UserPage reads one page of all users. Deleted ones are never in it.
func (c *Client) UserPage(ctx context.Context, offset, limit int) (UserPage, error) {
	var page UserPage
	err := c.call(ctx, "listing the users", func(ctx context.Context) error {
		var found codersdk.GetUsersResponse
		err := c.request(ctx, http.MethodGet, "/api/v2/users", nil, http.StatusOK, into(&found), withQuery(map[string]string{
			"offset": strconv.Itoa(max(0, offset)), "limit": strconv.Itoa(max(1, min(limit, MaxUserPage))),
		}))
		page = UserPage{Count: found.Count}
		for _, u := range found.Users {
			page.Users = append(page.Users, newUser(u))
		}
		return err
	})
	return page, err
}

// UserByID reads a user with the roles in each organization. A user who was deleted is
// gone (410).
func (c *Client) UserByID(ctx context.Context, id uuid.UUID) (User, error) {
	found, err := c.UserByName(ctx, id.String())
	if err != nil {
		return found, err
	}
	// By an id Coder finds deleted users too, without a word about it. By a name it does not.
	named, err := c.UserByName(ctx, found.Username)
	if IsNotFound(err) || err == nil && named.ID != id {
		again, err := c.UserByName(ctx, id.String())
		if err != nil || again.Username != found.Username {
			// It was renamed meanwhile.
			return again, err
		}
		return User{}, &Error{
			Op: fmt.Sprintf("reading user %q", found.Username), StatusCode: http.StatusGone, Message: "the user was deleted",
		}
	}
	if err != nil {
		return found, err
	}
	named.OrganizationRoles, err = c.organizationRoles(ctx, named)
	return named, err
}

// organizationRoles reads the roles of a user in each organization.
func (c *Client) organizationRoles(ctx context.Context, user User) (map[uuid.UUID][]string, error) {
	roles := map[uuid.UUID][]string{}
	err := c.call(ctx, fmt.Sprintf("reading the roles of user %q", user.Username), func(ctx context.Context) error {
		all, err := c.sdk.UserRoles(ctx, user.ID.String())
		for _, id := range user.OrganizationIDs {
			roles[id] = boundRoles(all.OrganizationRoles[id])
		}
		return err
	})
	return roles, err
}

// Members reads the members of an organization, and their roles in it.
func (c *Client) Members(ctx context.Context, organization uuid.UUID) (map[uuid.UUID][]string, error) {
	members := map[uuid.UUID][]string{}
	err := c.call(ctx, fmt.Sprintf("listing the members of organization %s", organization), func(ctx context.Context) error {
		var found []codersdk.OrganizationMemberWithUserData
		err := c.request(ctx, http.MethodGet, fmt.Sprintf("/api/v2/organizations/%s/members", organization), nil, http.StatusOK, into(&found))
		for i := range found {
			members[found[i].UserID] = roleNames(found[i].Roles)
		}
		return err
	})
	return members, err
}

// UserToken is what Coder lists of an API token.
type UserToken struct {
	TokenInfo
	Owner uuid.UUID
}

// Tokens lists the API tokens of all users that have not expired, as far as the client's
// own token may see them. Sessions are not in it.
func (c *Client) Tokens(ctx context.Context) ([]UserToken, error) {
	var all []UserToken
	err := c.call(ctx, "listing the tokens of all users", func(ctx context.Context) error {
		var tokens []codersdk.APIKeyWithOwner
		err := c.request(ctx, http.MethodGet, "/api/v2/users/me/keys/tokens", nil, http.StatusOK, into(&tokens),
			withQuery(map[string]string{"include_all": "true"}))
		for _, t := range tokens {
			all = append(all, UserToken{TokenInfo: newTokenInfo(t.APIKey), Owner: t.UserID})
		}
		return err
	})
	return all, err
}

// roleNames are the names of roles, in a fixed order. Every user has the role member, so
// it is left out.
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
		// Coder writes a role of an organization with its id in some of its answers.
		name, _, _ = strings.Cut(name, ":")
		if name != roleMember && name != roleOrganizationMember {
			out = append(out, boundName(name))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// The roles that everybody has.
const (
	roleMember             = "member"
	roleOrganizationMember = "organization-member"
)

// SetFullName changes the full name of a user.
func (c *Client) SetFullName(ctx context.Context, user User, name string) error {
	return c.changeUser(ctx, "setting the name of user", user, func(ctx context.Context, id string) error {
		_, err := c.sdk.UpdateUserProfile(ctx, id, codersdk.UpdateUserProfileRequest{Username: user.Username, Name: name})
		return err
	})
}

// SetPassword changes the password of a user, which ends all sessions and tokens. The
// password that the user has already is no error.
func (c *Client) SetPassword(ctx context.Context, user User, password string) error {
	err := c.changeUser(ctx, "setting the password of user", user, func(ctx context.Context, id string) error {
		return c.sdk.UpdateUserPassword(ctx, id, codersdk.UpdateUserPasswordRequest{Password: password})
	})
	if IsInvalid(err) && strings.Contains(err.Error(), samePassword) {
		return nil
	}
	return withoutSecret(err, password)
}

// samePassword (400) is what Coder says of the password that a user has already.
const samePassword = "New password cannot match old password"

// SetSuspended suspends a user, or ends that.
func (c *Client) SetSuspended(ctx context.Context, user User, suspended bool) error {
	status := codersdk.UserStatusActive
	if suspended {
		status = codersdk.UserStatusSuspended
	}
	return c.changeUser(ctx, "making "+string(status)+" user", user, func(ctx context.Context, id string) error {
		_, err := c.sdk.UpdateUserStatus(ctx, id, status)
		return err
	})
}

// DeleteUser deletes a user. It is a conflict while there are workspaces of the user.
func (c *Client) DeleteUser(ctx context.Context, user User) error {
	err := c.changeUser(ctx, "deleting user", user, func(ctx context.Context, _ string) error {
		return c.sdk.DeleteUser(ctx, user.ID)
	})
	if hasStatus(err, http.StatusExpectationFailed) {
		conflict := *err.(*Error) //nolint:errorlint,forcetypeassert // Only an *Error has a status.
		conflict.StatusCode = http.StatusConflict
		return &conflict
	}
	return err
}

// AddMember makes a user a member of an organization.
func (c *Client) AddMember(ctx context.Context, organization uuid.UUID, user User) error {
	return c.changeUser(ctx, "adding to an organization user", user, func(ctx context.Context, id string) error {
		_, err := c.sdk.PostOrganizationMember(ctx, organization, id)
		return err
	})
}

// RemoveMember ends the membership of a user in an organization.
func (c *Client) RemoveMember(ctx context.Context, organization uuid.UUID, user User) error {
	return c.changeUser(ctx, "removing from an organization user", user, func(ctx context.Context, id string) error {
		return c.sdk.DeleteOrganizationMember(ctx, organization, id)
	})
}

// SetMemberRoles sets exactly these roles of a user in an organization.
func (c *Client) SetMemberRoles(ctx context.Context, organization uuid.UUID, user User, roles []string) error {
	return c.changeUser(ctx, "setting the roles in an organization of user", user, func(ctx context.Context, id string) error {
		_, err := c.sdk.UpdateOrganizationMemberRoles(ctx, organization, id, codersdk.UpdateRoles{Roles: append([]string{}, roles...)})
		return err
	})
}

func (c *Client) changeUser(ctx context.Context, what string, user User, change func(ctx context.Context, id string) error) error {
	return c.call(ctx, fmt.Sprintf("%s %q", what, user.Username), func(ctx context.Context) error {
		return change(ctx, user.ID.String())
	})
}
