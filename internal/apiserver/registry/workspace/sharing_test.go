package workspace

import (
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

func shared(with ...share) edit {
	return func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.SharedWith = append([]share{}, with...) }
}

// isShared reports whether the spec and the status name exactly these, the spec in this order.
func isShared(ws *aggregationv1alpha1.CoderWorkspace, with ...share) bool {
	return slices.Equal(ws.Spec.SharedWith, with) && sameShares(ws.Status.SharedWith, with)
}

// newSharingFixture has a Coder that shares workspaces, the users bo and cy, and a workspace of ada.
func newSharingFixture(t *testing.T) (w *fixture, id uuid.UUID) {
	t.Helper()
	w = newFixture(t, coderdtest.WithRelease(coderdtest.Release236))
	w.coder.AddUser("bo")
	w.coder.AddUser("cy")
	id = w.coder.AddWorkspace("ada", w.template, "dev")
	w.mirror()
	return w, id
}

var (
	bo       = share{User: "bo", Role: "use"}
	cy       = share{User: "cy", Role: "admin"}
	everyone = share{Group: "Everyone", Role: "use"}
)

func TestSharing(t *testing.T) {
	w, id := newSharingFixture(t)
	if ws := w.object(devName); ws.Spec.SharedWith != nil || ws.Status.SharedWith != nil {
		t.Errorf("nobody set it: %+v", ws.Spec.SharedWith)
	}
	step := func(what string, generation int64, with ...share) {
		t.Helper()
		if ws := w.object(devName); !isShared(ws, with...) || ws.Generation != generation || ws.Status.ObservedGeneration != generation {
			t.Errorf("%s: generation %d, spec %+v, status %+v", what, ws.Generation, ws.Spec.SharedWith, ws.Status.SharedWith)
		}
	}
	w.mustUpdate(devName, shared(cy, share{User: "bo"}, everyone))
	step("in the answer, in the order of the request", 2, cy, bo, everyone)
	w.mirror()
	step("in the next sync", 2, cy, bo, everyone)
	w.restart()
	w.mirror()
	step("after a restart of the operator", 2, cy, bo, everyone)

	w.coder.ResetRequests()
	w.mustUpdate(devName, labelled("a", "b"))
	w.mustUpdate(devName, func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.SharedWith = nil })
	if n := w.coder.Writes(); n != 0 {
		t.Errorf("without a change: %v", w.coder.Requests())
	}
	step("unset", 2, cy, bo, everyone)

	w.coder.ShareWorkspace(id, "cy", "")
	w.mirror()
	step("changed in Coder", 3, bo, everyone)
	w.mustUpdate(devName, shared(share{User: "bo", Role: "admin"}))
	step("another role, without the group", 4, share{User: "bo", Role: "admin"})
	w.mustUpdate(devName, shared())
	w.mirror()
	step("nobody", 5)
	if ws := w.object(devName); ws.Spec.SharedWith == nil || w.transitions(ws) != "start" {
		t.Errorf("an empty list is not shown, or there was a build: %+v, %s", ws.Spec.SharedWith, w.transitions(ws))
	}
}

func TestSharingWithARenamedUser(t *testing.T) {
	w, id := newSharingFixture(t)
	w.coder.ShareWorkspace(id, "bo", "use")
	w.mirror()
	if ws := w.object(devName); !isShared(ws, bo) {
		t.Errorf("shared in Coder: %+v", ws.Spec.SharedWith)
	}
	w.coder.RenameUser("bo", "bob")
	w.pass(usernameTTL)
	w.mirror()
	if ws := w.object(devName); !isShared(ws, share{User: "bob", Role: "use"}) {
		t.Errorf("renamed: %+v", ws.Spec.SharedWith)
	}
}

func TestSharingThatIsRefused(t *testing.T) {
	w, _ := newSharingFixture(t)
	_, err := w.provider.connection.Client.CreateUser(t.Context(), coderd.NewUser{
		Username: "out", Email: "out@example.com", Password: "Secret-Passw0rd", OrganizationIDs: []uuid.UUID{w.coder.AddOrganization("lab")},
	})
	w.must(err)
	for name, c := range map[string]struct {
		with     []share
		at, hint string
	}{
		"unknown user":     {[]share{{User: "nobody"}}, "spec.sharedWith", "no such user"},
		"another case":     {[]share{{User: "BO"}}, "spec.sharedWith", `"bo"`},
		"me":               {[]share{{User: "me"}}, "spec.sharedWith", `"operator"`},
		"the owner":        {[]share{{User: "ada"}}, "spec.sharedWith", "owner"},
		"no member":        {[]share{{User: "out"}}, "spec.sharedWith", "not a member"},
		"group":            {[]share{{Group: "devs"}}, "spec.sharedWith", "license"},
		"neither":          {[]share{{Role: "use"}}, "spec.sharedWith[0]", "exactly one"},
		"both":             {[]share{{User: "bo", Group: "Everyone"}}, "spec.sharedWith[0]", "exactly one"},
		"twice":            {[]share{bo, {User: "bo", Role: "admin"}}, "spec.sharedWith[1]", ""},
		"role":             {[]share{{User: "bo", Role: "owner"}}, "spec.sharedWith[0].role", `"admin"`},
		"more than enough": {slices.Repeat([]share{bo}, maxShares+1), "spec.sharedWith", ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := w.coder.Writes()
			_, err := w.update(t.Context(), devName, shared(c.with...))
			wantInvalid(t, err, c.at, c.hint)
			_, err = w.create(newWorkspace("coder.ada.other", shared(c.with...)))
			wantInvalid(t, err, c.at, c.hint)
			if n := w.coder.Writes(); n != before {
				t.Errorf("%v", w.coder.Requests())
			}
		})
	}
}

// TestSharingBefore232 checks that a change is refused, also in a dry run, and that everything else
// works.
func TestSharingBefore232(t *testing.T) {
	w := newFixture(t)
	w.coder.AddUser("bo")
	id := w.coder.AddWorkspace("ada", w.template, "dev")
	w.coder.ShareWorkspace(id, "bo", "use")
	w.mirror()
	current := w.object(devName)
	if current.Spec.SharedWith != nil || current.Status.SharedWith != nil {
		t.Errorf("%+v", current.Spec)
	}
	wanted := current.DeepCopy()
	shared(bo)(wanted)
	for what, err := range map[string]error{
		"dry run":             w.kind.CheckUpdate(t.Context(), wanted, current),
		"change":              second(w.update(t.Context(), devName, shared(bo))),
		"dry run of creation": w.kind.CheckCreate(t.Context(), newWorkspace("coder.ada.other", shared(bo))),
	} {
		t.Log(what)
		wantInvalid(t, err, "spec.sharedWith", "this is Coder v2.30.0+43e67d1, and workspaces can be shared since Coder 2.32")
	}
	w.mustUpdate(devName, all(shared(), labelled("a", "b")))
	w.must(second(w.create(newWorkspace("coder.ada.other", shared()))))
}

// TestSharingOfANewWorkspace checks that Coder shares it as soon as it exists, and that a refusal is
// shown until the list is changed.
func TestSharingOfANewWorkspace(t *testing.T) {
	w, _ := newSharingFixture(t)
	const name = "coder.ada.fresh"
	made, err := w.create(newWorkspace(name, shared(cy, bo)))
	w.must(err)
	if !slices.Equal(made.Spec.SharedWith, []share{cy, bo}) || len(made.Status.SharedWith) != 0 || conditionOf(made, "Synced") != "False ChangeWaits" {
		t.Errorf("the answer: %+v %+v", made.Spec.SharedWith, made.Status)
	}
	w.mirror()
	if ws := w.object(name); !isShared(ws, cy, bo) || conditionOf(ws, "Synced") != "True Synced" || ws.Generation != 1 || ws.Status.ObservedGeneration != 1 {
		t.Errorf("then: %+v %+v", ws.Spec.SharedWith, ws.Status)
	}

	const other = "coder.ada.other"
	w.must(second(w.create(newWorkspace(other, shared(bo), running(false)))))
	defer w.coder.Fail(coderdtest.Fault{Method: http.MethodPatch, PathPrefix: "/api/v2/workspaces/", Status: http.StatusForbidden, Message: "Workspace sharing is disabled for this organization."})()
	w.mirror()
	if ws := w.object(other); conditionOf(ws, "Synced") != "False ChangeRefused" || !slices.Equal(ws.Spec.SharedWith, []share{bo}) || len(ws.Status.SharedWith) != 0 {
		t.Errorf("refused: %+v %+v", ws.Spec.SharedWith, ws.Status)
	}
	w.mustUpdate(other, shared())
	w.mirror()
	if ws := w.object(other); conditionOf(ws, "Synced") != "True Synced" || !isShared(ws) || w.transitions(ws) != "start stop" {
		t.Errorf("given up: %+v %+v, builds %s", ws.Spec.SharedWith, ws.Status, w.transitions(ws))
	}
}

// TestSharingAsTheCaller checks that Coder decides who may share a workspace.
func TestSharingAsTheCaller(t *testing.T) {
	for role, allowed := range map[string]bool{"use": false, "admin": true} {
		t.Run(role, func(t *testing.T) {
			w, _ := newSharingFixture(t)
			w.coder.AddUser("di")
			id := w.coder.AddWorkspace("di", w.template, "dev")
			w.coder.ShareWorkspace(id, "ada", role)
			w.mirror()
			const object = "coder.di.dev"
			ctx, current := w.asAda(), w.object(object)
			wanted := current.DeepCopy()
			wanted.Spec.SharedWith = append(wanted.Spec.SharedWith, bo)
			for what, err := range map[string]error{
				"dry run": w.kind.CheckUpdate(ctx, wanted, current),
				"change":  second(w.update(ctx, object, shared(wanted.Spec.SharedWith...))),
			} {
				if allowed && err != nil || !allowed && !apierrors.IsForbidden(err) {
					t.Errorf("%s: %v, allowed %t", what, err, allowed)
				}
			}
			// Both roles may start and stop.
			if _, err := w.update(ctx, object, running(false)); err != nil {
				t.Errorf("stop: %v", err)
			}
			if err := w.deleteAs(ctx, object); !apierrors.IsForbidden(err) {
				t.Errorf("deletion: %v", err)
			}
		})
	}
}

func TestOrderOfSharing(t *testing.T) {
	got := inOrder([]share{bo, cy, everyone}, []share{everyone, {User: "gone", Role: "use"}, cy})
	if diff := cmp.Diff([]share{everyone, cy, bo}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := inOrder(nil, nil); got != nil {
		t.Errorf("%v", got)
	}
}
