package coderd

import (
	"context"
	"errors"
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
	named.OrganizationRoles, err = c.organizationRoles(ctx, named)
	return named, err
}

// organizationRoles returns the roles of a user in each organization.
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

// roleNames returns the names of roles, sorted. It omits the role member, which every user has.
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
		if name != roleMember && name != roleOrganizationMember {
			out = append(out, boundName(name))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// The roles that every user has.
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

// SetPassword changes the password of a user, which ends all sessions and revokes all tokens. If
// the user already has this password, it returns no error.
func (c *Client) SetPassword(ctx context.Context, user User, password string) error {
	err := c.changeUser(ctx, "setting the password of user", user, func(ctx context.Context, id string) error {
		return c.sdk.UpdateUserPassword(ctx, id, codersdk.UpdateUserPasswordRequest{Password: password})
	})
	if IsInvalid(err) && strings.Contains(err.Error(), samePassword) {
		return nil
	}
	return withoutSecret(err, password)
}

// PasswordProblem returns why Coder does not accept a password, or "". It changes nothing.
func (c *Client) PasswordProblem(ctx context.Context, password string) (string, error) {
	ctx = WithBeforeChange(WithActor(ctx, nil), func(context.Context) error { return nil })
	var answer codersdk.ValidateUserPasswordResponse
	err := c.call(ctx, "checking a password", func(ctx context.Context) error {
		return c.request(ctx, http.MethodPost, "/api/v2/users/validate-password", codersdk.ValidateUserPasswordRequest{Password: password}, http.StatusOK, into(&answer))
	})
	if err != nil || answer.Valid {
		return "", withoutSecret(err, password)
	}
	return boundText(strings.ReplaceAll(answer.Details, password, "...")), nil
}

// samePassword is Coder's message (400) if the user already has the password.
const samePassword = "New password cannot match old password"

// SetSuspended suspends a user, or ends the suspension.
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

// DeleteUser deletes a user. If the user has workspaces, the error is a conflict.
func (c *Client) DeleteUser(ctx context.Context, user User) error {
	err := c.changeUser(ctx, "deleting user", user, func(ctx context.Context, _ string) error {
		return c.sdk.DeleteUser(ctx, user.ID)
	})
	if e, ok := errors.AsType[*Error](err); ok && e.StatusCode == http.StatusExpectationFailed {
		e.StatusCode = http.StatusConflict
	}
	return err
}

// AddMember adds a user to an organization.
func (c *Client) AddMember(ctx context.Context, organization uuid.UUID, user User) error {
	return c.changeUser(ctx, "adding to an organization user", user, func(ctx context.Context, id string) error {
		_, err := c.sdk.PostOrganizationMember(ctx, organization, id)
		return err
	})
}

// RemoveMember removes a user from an organization.
func (c *Client) RemoveMember(ctx context.Context, organization uuid.UUID, user User) error {
	return c.changeUser(ctx, "removing from an organization user", user, func(ctx context.Context, id string) error {
		return c.sdk.DeleteOrganizationMember(ctx, organization, id)
	})
}

// SetMemberRoles sets the roles of a user in an organization to exactly these roles.
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
