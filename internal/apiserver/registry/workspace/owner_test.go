package workspace

import (
	"context"
	"net/http"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/impersonation"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// permitted are the resources and names for which a caller has the verb impersonate.
type permitted []string

// Authorize implements authorizer.UnconditionalAuthorizer.
func (p permitted) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	resource := a.GetResource()
	if a.GetSubresource() != "" {
		resource += "/" + a.GetSubresource()
	}
	if slices.Contains(p, resource+" "+a.GetName()) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionDeny, "", nil
}

// asCarol returns the context of a caller that no rule matches.
func (w *fixture) asCarol(permissions ...string) context.Context {
	w.kind.Actors = impersonation.New(impersonation.Config{Authorizer: permitted(permissions), Clock: w.clock})
	return request.WithUser(w.t.Context(), &user.DefaultInfo{Name: "carol"})
}

// TestOwnersAreThoseOfNow checks that a change is authorized for the present name and the present roles of the owner of a
// workspace, and not for those that the object shows.
func TestOwnersAreThoseOfNow(t *testing.T) {
	for name, c := range map[string]struct {
		since   func(*coderdtest.Server)
		has     []string
		allowed bool
	}{
		"nothing happened":                    {func(*coderdtest.Server) {}, []string{"coderusers boss"}, false},
		"with the permission for Owners":      {func(*coderdtest.Server) {}, []string{"coderusers boss", "coderusers/owner boss"}, true},
		"renamed":                             {func(s *coderdtest.Server) { s.RenameUser("boss", "head") }, []string{"coderusers boss", "coderusers head"}, false},
		"renamed, with the old name":          {func(s *coderdtest.Server) { s.RenameUser("boss", "head") }, []string{"coderusers boss", "coderusers/owner boss"}, false},
		"renamed, with the new name":          {func(s *coderdtest.Server) { s.RenameUser("boss", "head") }, []string{"coderusers head", "coderusers/owner head"}, true},
		"somebody else has the old name":      {swapped, []string{"coderusers boss", "coderusers head"}, false},
		"not an Owner any more":               {func(s *coderdtest.Server) { s.EditUser("boss", "", false) }, []string{"coderusers boss"}, true},
		"an Owner is deleted":                 {func(s *coderdtest.Server) { s.RemoveUser("boss") }, []string{"coderusers boss"}, false},
		"not an Owner any more, and renamed":  {demoted, []string{"coderusers head"}, true},
		"not an Owner any more, the old name": {demoted, []string{"coderusers boss"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.coder.AddUser("boss", "owner")
			id := w.coder.AddWorkspace("boss", w.template, "dev")
			w.mirror()
			const object = "coder.boss.dev"
			was := w.object(object)
			c.since(w.coder)
			ctx := w.asCarol(c.has...)
			stopped := was.DeepCopy()
			running(false)(stopped)
			for what, err := range map[string]error{
				"dry run":             w.kind.CheckUpdate(ctx, stopped, was),
				"dry run of deletion": w.kind.CheckDelete(ctx, was),
				"change":              second(w.update(ctx, object, running(false))),
			} {
				if c.allowed && err != nil || !c.allowed && !apierrors.IsForbidden(err) {
					t.Errorf("%s: %v, allowed %t", what, err, c.allowed)
				}
			}
			// The object that the fixture shows after a change has the new name.
			if err := w.deleteAs(ctx, w.log[records.IDOf(was)].Name); c.allowed && err != nil || !c.allowed && !apierrors.IsForbidden(err) {
				t.Errorf("deletion: %v, allowed %t", err, c.allowed)
			}
			if builds := len(w.coder.Initiators(id)); (builds > 1) != c.allowed {
				t.Errorf("%d builds", builds)
			}
		})
	}
}

func second(_ *aggregationv1alpha1.CoderWorkspace, err error) error { return err }

// swapped is a user who gets the name of an Owner, after the Owner got another one.
func swapped(s *coderdtest.Server) {
	s.RenameUser("boss", "head")
	s.RenameUser("ada", "boss")
}

func demoted(s *coderdtest.Server) {
	s.EditUser("boss", "", false)
	s.RenameUser("boss", "head")
}

// TestOwnersOfNewWorkspaces checks that nobody gets a workspace whose name cannot be authorized.
func TestOwnersOfNewWorkspaces(t *testing.T) {
	w := newFixture(t)
	w.coder.AddUser("boss", "owner")
	for name, allowed := range map[string]bool{"ada": true, "boss": false, "nobody": false, "me": false} {
		ctx := w.asCarol("coderusers " + name)
		if _, err := w.kind.Write(ctx, "key", nil, newWorkspace("coder."+name+".dev")); allowed && err != nil || !allowed && !apierrors.IsForbidden(err) {
			t.Errorf("a workspace of %s: %v, allowed %t", name, err, allowed)
		}
	}
}

// TestDeletionsWhileNobodyKnowsTheOwner checks that a deletion is recorded while Coder is unavailable only for a caller who
// needs no name: the owner may have been renamed.
func TestDeletionsWhileNobodyKnowsTheOwner(t *testing.T) {
	w := newFixture(t)
	w.coder.AddWorkspace("ada", w.template, "dev")
	w.coder.AddWorkspace("ada", w.template, "owned")
	w.mirror()
	defer w.coder.Fail(coderdtest.Fault{DropConnection: true})()
	if err := w.deleteAs(w.asCarol("coderusers ada", "coderusers/owner ada"), devName); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("with the permission for one name: %v, want 503", err)
	}
	if err := w.deleteAs(w.asCarol("coderusers ", "coderusers/owner "), devName); err != nil {
		t.Errorf("with the permission for all users: %v", err)
	}
	collector := request.WithUser(w.asCarol(), &user.DefaultInfo{Name: "system:serviceaccount:kube-system:generic-garbage-collector"})
	if err := w.deleteAs(collector, "coder.ada.owned"); err != nil {
		t.Errorf("the garbage collector: %v", err)
	}
	for _, name := range []string{devName, "coder.ada.owned"} {
		if ws := w.object(name); ws.DeletionTimestamp == nil {
			t.Errorf("the deletion of %s is not recorded", name)
		}
	}
}

// TestAdoption checks that the workspace of another user, who got the name of the owner, gets nothing of an interrupted creation.
func TestAdoption(t *testing.T) {
	w := newFixture(t)
	ada, _ := w.coder.User("ada")
	w.coder.Fail(coderdtest.Fault{Method: http.MethodPost, PathPrefix: "/api/v2/users/" + ada.ID.String() + "/workspaces", Status: http.StatusBadGateway, Times: 1})
	if _, err := w.create(newWorkspace(devName, labelled("team", "blue"))); !apierrors.IsTimeout(err) {
		t.Fatalf("without an answer: %v", err)
	}
	pending, ok := w.records.PendingFor(w.provider.connection.ControlPlane, info.Kind, devName)
	if !ok {
		t.Fatal("no record")
	}
	w.coder.RenameUser("ada", "countess")
	w.coder.AddUser("ada")
	for owner, want := range map[string]bool{"ada": false, "countess": true} {
		user, _ := w.coder.User(owner)
		if got := w.kind.Adopts(coderd.Workspace{OwnerID: user.ID}, pending); got != want {
			t.Errorf("the workspace of %s: %t", owner, got)
		}
	}
}
