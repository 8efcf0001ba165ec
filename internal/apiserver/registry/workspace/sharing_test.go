package workspace

import (
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

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
			w.mustUpdate(object, parameter("size", "2"))
			w.mirror()
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
			// Coder does not check what only the record holds, and a dry run is as strict as Coder.
			omit := func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.Parameters = nil }
			checked := func(change edit) error {
				wanted := w.object(object).DeepCopy()
				change(wanted)
				return w.kind.CheckUpdate(ctx, wanted, w.object(object))
			}
			for what, err := range map[string]error{
				"start with a TTL, dry run": checked(all(running(true), func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.TTLMillis = ptr.To[int64](120_000) })),
				"start without parameters":  second(w.update(ctx, object, all(running(true), omit))),
			} {
				if allowed != (err == nil) || err != nil && !apierrors.IsForbidden(err) {
					t.Errorf("%s: %v, allowed %t", what, err, allowed)
				}
			}
			// Only those who may share learn which users exist.
			if _, err := w.update(ctx, object, shared(share{User: "nobody"})); apierrors.IsForbidden(err) == allowed {
				t.Errorf("with nobody: %v", err)
			}
		})
	}
}

// TestSharingWithoutUsernames checks that a user whose name cannot be read does not block the workspace, and
// is not read again each time.
func TestSharingWithoutUsernames(t *testing.T) {
	w, id := newSharingFixture(t)
	w.coder.ShareWorkspace(id, "bo", "use")
	w.mirror()
	user, _ := w.coder.User("bo")
	path := "/api/v2/users/" + user.ID.String()
	lost := share{User: user.ID.String(), Role: "use"}

	w.restart()
	mend := w.coder.Fail(coderdtest.Fault{Method: http.MethodGet, PathPrefix: path})
	w.coder.ShareWorkspace(id, "cy", "admin")
	w.mirror()
	if ws := w.object(devName); !isShared(ws, bo) || ws.Generation != 2 {
		t.Errorf("the earlier list is kept: %+v, generation %d", ws.Spec.SharedWith, ws.Generation)
	}
	other := w.coder.AddWorkspace("ada", w.template, "other")
	w.coder.ShareWorkspace(other, "bo", "use")
	w.mirror()
	if ws := w.object("coder.ada.other"); !isShared(ws, lost) {
		t.Errorf("without an earlier list: %+v", ws.Spec.SharedWith)
	}
	mend()
	w.mirror()
	if ws := w.object(devName); !isShared(ws, bo, cy) {
		t.Errorf("then: %+v", ws.Spec.SharedWith)
	}

	w.pass(usernameTTL)
	defer w.coder.Fail(coderdtest.Fault{Method: http.MethodGet, PathPrefix: path, Status: http.StatusNotFound, Message: "Resource not found or you do not have access to this resource"})()
	w.mirror()
	if ws := w.object(devName); !isShared(ws, lost, cy) && !isShared(ws, cy, lost) {
		t.Errorf("a user who is gone: %+v", ws.Spec.SharedWith)
	}
	w.coder.ResetRequests()
	w.mirror()
	if n := w.coder.Requests()["GET /api/v2/users/{user}"]; n != 0 {
		t.Errorf("read again: %v", w.coder.Requests())
	}
}

// TestSharingWithNamesThatMoved checks that a cached name of a user, or of a user of another Coder, is not
// taken for this one.
func TestSharingWithNamesThatMoved(t *testing.T) {
	w, id := newSharingFixture(t)
	w.coder.ShareWorkspace(id, "bo", "use")
	w.mirror()
	w.coder.RenameUser("bo", "bob")
	other, bob := w.provider.connection, share{User: "bob", Role: "use"}
	other.ControlPlane.Name = "other"
	obj, err := w.kind.Object(t.Context(), other, w.item(w.object(devName)), nil, nil)
	w.must(err)
	if ws := obj.(object); !isShared(ws, bob) {
		t.Errorf("the other control plane: %+v", ws.Spec.SharedWith)
	}

	w.coder.RenameUser("cy", "bo")
	w.coder.ShareWorkspace(id, "bo", "use")
	w.mirror()
	if ws := w.object(devName); !isShared(ws, bo, bo) {
		t.Errorf("two of the same name: %+v", ws.Spec.SharedWith)
	}
	w.mustUpdate(devName, running(false))

	w.mustUpdate(devName, shared(bo, everyone))
	w.pass(usernameTTL)
	w.mirror()
	if ws := w.object(devName); !isShared(ws, bo, everyone) {
		t.Errorf("shared with the one who has the name now: %+v", ws.Spec.SharedWith)
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
