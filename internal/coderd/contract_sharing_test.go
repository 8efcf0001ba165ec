package coderd_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// sharing shares the workspace with another member of the organization, and with all members.
func (c *contract) sharing(t *testing.T) {
	ctx, id := t.Context(), c.workspace.ID
	name := "bo-" + c.suffix
	bo := must[coderd.User](t)(c.admin.CreateUser(ctx, coderd.NewUser{
		Username: name, Email: name + "@example.com", Password: contractPassword, OrganizationIDs: []uuid.UUID{c.org.ID},
	}))
	me := must[coderd.User](t)(c.admin.Me(ctx))
	use := coderd.Share{ID: bo.ID, Role: coderd.RoleUse}
	if err := c.admin.CheckSharing(ctx); err != nil {
		if !coderd.IsInvalid(err) {
			t.Errorf("before Coder 2.32: %v", err)
		}
		expect(t, c.admin.ShareWorkspace(ctx, id, []coderd.Share{use}),
			refusal{http.StatusForbidden, "Workspace Sharing functionality requires enabling the 'workspace-sharing' experiment.", nil})
		return
	}
	guest := c.client(t, must[string](t)(c.anonymous.Login(ctx, name+"@example.com", contractPassword)))
	const wrong = "Invalid request to update workspace ACL"
	expect(t, c.admin.ShareWorkspace(ctx, id, []coderd.Share{{ID: uuid.New(), Role: coderd.RoleUse}}), refusal{http.StatusBadRequest, wrong, []string{"user_roles"}})
	expect(t, c.admin.ShareWorkspace(ctx, id, []coderd.Share{{ID: bo.ID, Role: "owner"}}), refusal{http.StatusBadRequest, wrong, []string{"user_roles"}})
	expect(t, c.admin.ShareWorkspace(ctx, id, []coderd.Share{{ID: uuid.New(), IsGroup: true, Role: coderd.RoleUse}}),
		refusal{http.StatusBadRequest, wrong, []string{"group_roles"}})
	expect(t, c.admin.ShareWorkspace(ctx, uuid.New(), []coderd.Share{use}), refusal{http.StatusNotFound, notFound, nil})
	expect(t, guest.ShareWorkspace(ctx, id, []coderd.Share{use}), refusal{http.StatusNotFound, notFound, nil})
	// An entry that does not exist can be removed.
	ok(t, c.admin.ShareWorkspace(ctx, id, []coderd.Share{{ID: uuid.New()}}))

	everyone := coderd.Share{ID: must[uuid.UUID](t)(c.admin.GroupID(ctx, c.org.ID, coderd.EveryoneGroup)), IsGroup: true, GroupName: coderd.EveryoneGroup, Role: coderd.RoleUse}
	_, err := c.admin.GroupID(ctx, c.org.ID, "devs")
	if !coderd.IsNotSupported(err) && !coderd.IsNotEntitled(err) {
		t.Errorf("a group without a license: %v", err)
	}
	admin := coderd.Share{ID: bo.ID, Role: coderd.RoleAdmin}
	for _, step := range []struct {
		name   string
		change coderd.Share
		want   []coderd.Share
		may    string
	}{
		{"use", use, []coderd.Share{use}, "read ssh start stop"},
		{"admin", admin, []coderd.Share{admin}, "read ssh start stop update share"},
		{"ended", coderd.Share{ID: bo.ID}, nil, ""},
		{"all members", everyone, []coderd.Share{everyone}, "read ssh start stop"},
		{"ended for all", coderd.Share{ID: everyone.ID, IsGroup: true}, nil, ""},
	} {
		ok(t, c.admin.ShareWorkspace(ctx, id, []coderd.Share{step.change}))
		if diff := cmp.Diff(step.want, must[coderd.Workspace](t)(c.admin.Workspace(ctx, id)).SharedWith); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", step.name, diff)
		}
		for _, w := range must[[]coderd.Workspace](t)(allWorkspaces(ctx, c.admin)) {
			if diff := cmp.Diff(step.want, w.SharedWith); w.ID == id && diff != "" {
				t.Errorf("%s, in the list: (-want +got):\n%s", step.name, diff)
			}
		}
		if got := mayDo(ctx, t, guest, id); got != step.may {
			t.Errorf("%s: the other may %q, want %q", step.name, got, step.may)
		}
		switch _, err := guest.Workspace(ctx, id); {
		case step.may == "":
			expect(t, err, refusal{http.StatusNotFound, notFound, nil})
		case err != nil:
			t.Errorf("%s: %v", step.name, err)
		case step.change.Role == coderd.RoleUse:
			expect(t, guest.ShareWorkspace(ctx, id, []coderd.Share{{ID: me.ID, Role: coderd.RoleUse}}), refusal{http.StatusForbidden, "Forbidden.", nil})
		}
	}
}

// mayDo returns the actions that Coder permits to a user.
func mayDo(ctx context.Context, t *testing.T, client *coderd.Client, id uuid.UUID) (actions string) {
	t.Helper()
	for _, action := range []string{"read", "ssh", "start", "stop", "update", "share", "delete"} {
		if must[bool](t)(client.May(ctx, coderd.Permission{Resource: "workspace", Action: action, ID: id})) {
			if actions != "" {
				actions += " "
			}
			actions += action
		}
	}
	return actions
}
