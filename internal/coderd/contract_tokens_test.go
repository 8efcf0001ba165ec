package coderd_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// workspaceToken is about a token that is restricted to the workspace: one of an Owner, who
// could do everything without the restriction.
func (c *contract) workspaceToken(t *testing.T) {
	ctx := t.Context()
	name := "only-" + c.suffix
	other := must[coderd.Workspace](t)(c.admin.CreateWorkspace(ctx, c.member, coderd.NewWorkspace{Name: "other-" + c.suffix, TemplateID: c.template.ID}))
	polltest.Eventually(t, "another workspace to run", func() bool {
		return must[coderd.Workspace](t)(c.admin.Workspace(ctx, other.ID)).LatestBuild.Status == "running"
	})
	token, info, err := c.admin.CreateWorkspaceToken(ctx, coderd.Me, c.workspace.ID, coderd.TokenRequest{Name: name, Lifetime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if lives := info.ExpiresAt.Sub(info.CreatedAt); info.ID != token.ID || info.Name != name || lives < 59*time.Minute || lives > 61*time.Minute {
		t.Errorf("%+v", info)
	}
	only := c.client(t, token.Value)
	if w, err := only.Workspace(ctx, c.workspace.ID); err != nil || w.Name != c.workspace.Name {
		t.Errorf("its own workspace: %v", err)
	}
	ttl := 2 * time.Hour
	if err := only.SetTTL(ctx, c.workspace.ID, &ttl); err != nil {
		t.Errorf("the time to stop of its own workspace: %v", err)
	}
	if err := only.SetTTL(ctx, c.workspace.ID, c.workspace.TTL); err != nil {
		t.Error(err)
	}
	if _, err := only.Template(ctx, c.template.ID); err != nil {
		t.Errorf("a template: %v", err)
	}
	classic := func(on bool) {
		must[coderd.Template](t)(c.admin.UpdateTemplate(ctx, c.template.ID, coderd.TemplateEdit{UseClassicParameterFlow: &on}))
	}
	classic(false)
	refused := map[string]error{
		"a build of its own workspace":       transit(ctx, only, c.workspace.ID, coderd.TransitionStop),
		"a deletion of its own workspace":    transit(ctx, only, c.workspace.ID, coderd.TransitionDelete),
		"a build of another workspace":       transit(ctx, only, other.ID, coderd.TransitionStop),
		"the time to stop of another one":    only.SetTTL(ctx, other.ID, &ttl),
		"the roles of a user":                only.SetRoles(ctx, c.member, nil),
		"the end of the token of its user":   only.DeleteToken(ctx, coderd.Me, token.ID),
		"the end of the token of a stranger": only.DeleteToken(ctx, c.member, token.ID),
	}
	_, refused["its user"] = only.Me(ctx)
	_, refused["another user"] = only.UserByName(ctx, c.member)
	_, refused["another workspace"] = only.Workspace(ctx, other.ID)
	_, refused["a token"] = only.CreateToken(ctx, coderd.Me, coderd.TokenRequest{Name: "escape-" + c.suffix, Lifetime: time.Hour})
	_, refused["the tokens"] = only.AllTokens(ctx)
	_, refused["a workspace"] = only.CreateWorkspace(ctx, coderd.Me, coderd.NewWorkspace{Name: "new-" + c.suffix, TemplateID: c.template.ID})
	_, refused["a user"] = only.CreateUser(ctx, coderd.NewUser{Username: "new-" + c.suffix, Email: "new-" + c.suffix + "@example.com", Password: contractPassword})
	for what, err := range refused {
		if err == nil {
			t.Errorf("a token of one workspace is enough for %s", what)
		}
	}
	expect(t, refused["another workspace"], refusal{Status: http.StatusNotFound, Message: notFound})
	all := must[[]coderd.TokenInfo](t)(c.admin.AllTokens(ctx))
	found := false
	for _, known := range all {
		found = found || known.ID == token.ID && known.Name == name && known.Username != "" && known.UserID == info.UserID
	}
	if !found {
		t.Errorf("%s is not among the tokens of all users: %+v", name, all)
	}
	if err := c.admin.DeleteToken(ctx, info.UserID.String(), token.ID); err != nil {
		t.Error(err)
	}
	if _, err := only.Workspace(ctx, c.workspace.ID); !coderd.IsUnauthorized(err) {
		t.Errorf("a token that was revoked: %v, want 401", err)
	}
	// With the classic parameter flow, Coder does not read the owner, and a build is permitted.
	classic(true)
	token, info, err = c.admin.CreateWorkspaceToken(ctx, coderd.Me, other.ID, coderd.TokenRequest{Name: name, Lifetime: time.Hour})
	ok(t, err)
	ok(t, transit(ctx, c.client(t, token.Value), other.ID, coderd.TransitionStop))
	polltest.Eventually(t, "another workspace to be stopped", func() bool {
		return must[coderd.Workspace](t)(c.admin.Workspace(ctx, other.ID)).LatestBuild.Status == "stopped"
	})
	ok(t, c.admin.DeleteToken(ctx, info.UserID.String(), token.ID))
	ok(t, transit(ctx, c.admin, other.ID, coderd.TransitionDelete))
	polltest.Eventually(t, "the other workspace to be gone", func() bool {
		_, err := c.admin.Workspace(ctx, other.ID)
		return coderd.IsNotFound(err)
	})
}
