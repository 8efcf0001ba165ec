package workspace

import (
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/rest"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// unmatched adds a running workspace whose next build no provisioner can take.
func unmatched(w *fixture) {
	w.coder.RequireTags(w.template, map[string]string{"region": "mars"})
	there(w)
}

// messageOf returns the message of a condition.
func messageOf(ws *aggregationv1alpha1.CoderWorkspace, kind string) string {
	if c := meta.FindStatusCondition(ws.Status.Conditions, kind); c != nil {
		return c.Message
	}
	return ""
}

// TestNoProvisioner checks that a build that no provisioner can take names the tags, and that a user
// must act if it lasts.
func TestNoProvisioner(t *testing.T) {
	w := newFixture(t)
	unmatched(w)
	w.mustUpdate(devName, running(false))
	w.mirror()
	ws := w.object(devName)
	if conditionOf(ws, "Ready") != "False NoProvisioner" || conditionOf(ws, "BuildSucceeded") != "Unknown NoProvisioner" ||
		conditionOf(ws, "Stalled") != "False NoProvisioner" || conditionOf(ws, "Reconciling") != "True NoProvisioner" {
		t.Errorf("at first: %+v", ws.Status.Conditions)
	}
	if message := messageOf(ws, "Ready"); !strings.Contains(message, "region=mars,scope=organization") {
		t.Errorf("the message %q does not name the tags", message)
	}
	w.pass(time.Minute)
	w.mustUpdate(devName, labelled("a", "b"))
	for range 2 {
		ws = w.object(devName)
		if conditionOf(ws, "Stalled") != "True NoProvisioner" || conditionOf(ws, "Reconciling") != "False NoProvisioner" ||
			!strings.Contains(messageOf(ws, "Stalled"), "region=mars") {
			t.Errorf("after a minute: %+v", ws.Status.Conditions)
		}
		w.restart()
		w.mirror()
	}
}

// TestNoProvisionerWithAnotherClock checks a Coder whose clock is ahead.
func TestNoProvisionerWithAnotherClock(t *testing.T) {
	w := newFixture(t)
	unmatched(w)
	w.mustUpdate(devName, running(false))
	w.pass(-time.Hour)
	w.mirror()
	if ws := w.object(devName); conditionOf(ws, "Stalled") != "True NoProvisioner" {
		t.Errorf("%+v", ws.Status.Conditions)
	}
}

// TestChangeReplacesUnmatchedBuild checks that a change does not wait for a build that never begins.
func TestChangeReplacesUnmatchedBuild(t *testing.T) {
	w := newFixture(t)
	unmatched(w)
	w.mustUpdate(devName, running(false))
	w.mirror()
	w.coder.RequireTags(w.template, nil)
	w.mustUpdate(devName, running(true))
	w.must(w.drive())
	if ws := w.object(devName); w.transitions(ws) != "start stop start" || conditionOf(ws, "Ready") != "True Running" {
		t.Errorf("builds %s: %+v", w.transitions(ws), ws.Status.Conditions)
	}
	// A restart does not replace its own stop.
	w.coder.RequireTags(w.template, map[string]string{"region": "mars"})
	w.must(act(actionRestart)(w))
	w.mirror()
	if ws := w.object(devName); w.transitions(ws) != "start stop start stop" || ws.Status.Phase != "Pending" {
		t.Errorf("builds %s: %+v", w.transitions(ws), ws.Status)
	}
}

// TestDeletionCancelsPendingBuild checks that a deletion does not wait for a build that no provisioner
// has taken.
func TestDeletionCancelsPendingBuild(t *testing.T) {
	w := newFixture(t)
	unmatched(w)
	w.mustUpdate(devName, running(false))
	w.must(w.delete(devName))
	w.mirror()
	ws := w.object(devName)
	if w.transitions(ws) != "start stop delete" || conditionOf(ws, "Ready") != "False Deleting" || !strings.Contains(messageOf(ws, "Ready"), "region=mars") {
		t.Errorf("builds %s: %+v", w.transitions(ws), ws.Status.Conditions)
	}
	w.pass(time.Minute)
	w.mirror()
	if ws := w.object(devName); w.transitions(ws) != "start stop delete" || conditionOf(ws, "Stalled") != "True NoProvisioner" {
		t.Errorf("after a minute: builds %s: %+v", w.transitions(ws), ws.Status.Conditions)
	}
}

// TestDeletionWaitsIfNotAllowedToCancel checks that a deletion by a member waits for the pending build,
// as before, if only Owners may cancel builds.
func TestDeletionWaitsIfNotAllowedToCancel(t *testing.T) {
	w := newFixture(t, coderdtest.WithManualBuilds())
	there(w)
	w.coder.PatchTemplate(t, w.template, map[string]any{"allow_user_cancel_workspace_jobs": false})
	w.mustUpdate(devName, running(false))
	w.must(w.deleteAs(w.asAda(), devName))
	w.mirror()
	if ws := w.object(devName); w.transitions(ws) != "start stop" {
		t.Errorf("builds %s", w.transitions(ws))
	}
	w.must(w.drive())
	if ws := w.object(devName); ws != nil {
		t.Errorf("in the end: %+v", ws.Status)
	}
}

// TestOrphan checks the deletion without a build, at first and after a deletion that hangs.
func TestOrphan(t *testing.T) {
	for name, c := range map[string]struct {
		before func(w *fixture)
		builds string
	}{
		"at first":          {func(*fixture) {}, "start delete"},
		"a stop hangs":      {func(w *fixture) { w.mustUpdate(devName, running(false)) }, "start stop delete"},
		"a deletion hangs":  {func(w *fixture) { w.must(w.delete(devName)) }, "start delete delete"},
		"a deletion failed": {failedDeletion, "start delete delete"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			unmatched(w)
			c.before(w)
			w.mirror()
			ws := w.object(devName)
			sub, ctx := w.kind.Subresources(store{w}, nil)["orphan"], t.Context()
			_, err := do(t, sub, ctx, metav1.DryRunAll)
			w.must(err)
			_, err = do(t, sub, ctx)
			w.must(err)
			w.mirror()
			if w.object(devName) != nil || w.transitions(ws) != c.builds || len(w.records.All()) != 0 {
				t.Errorf("builds %s, object %+v", w.transitions(ws), w.object(devName))
			}
		})
	}
}

// TestOrphanPrebuilt checks that a prebuilt workspace can be deleted without a build, as it can be with one.
func TestOrphanPrebuilt(t *testing.T) {
	const name = "coder.prebuilds.one"
	w := newFixture(t)
	w.coder.AddUser("prebuilds")
	w.coder.RequireTags(w.template, map[string]string{"region": "mars"})
	w.coder.AddWorkspace("prebuilds", w.template, "one")
	w.mirror()
	ws := w.object(name)
	ordered := func(a action) error {
		_, err := w.update(withAction(t.Context(), a), name, func(ws *aggregationv1alpha1.CoderWorkspace) {
			w.must((&actionREST{action: a}).change(ws, nil))
		})
		return err
	}
	for _, a := range []action{actionStart, actionStop, actionRestart} {
		if err := ordered(a); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "create a workspace with the preset") {
			t.Errorf("%s: %v", a, err)
		}
	}
	w.must(ordered(actionOrphan))
	w.mirror()
	if w.object(name) != nil || w.transitions(ws) != "start delete" {
		t.Errorf("builds %s, object %+v", w.transitions(ws), w.object(name))
	}
}

// failedDeletion has a deletion that fails, and then no provisioner.
func failedDeletion(w *fixture) {
	w.coder.RequireTags(w.template, nil)
	w.coder.SetBuildResult("dev", coderdtest.BuildResult{Error: "terraform cannot destroy"})
	w.must(w.delete(devName))
	w.mirror()
	w.coder.RequireTags(w.template, map[string]string{"region": "mars"})
}

// TestOrphanWithProvisioner checks that the build of the deletion waits its turn if there is a
// provisioner, and is not replaced again.
func TestOrphanWithProvisioner(t *testing.T) {
	w := newFixture(t, coderdtest.WithManualBuilds())
	there(w)
	w.must(act(actionOrphan)(w))
	w.must(w.delete(devName))
	w.mirror()
	ws := w.object(devName)
	if w.transitions(ws) != "start delete" || ws.DeletionTimestamp == nil {
		t.Errorf("builds %s: %+v", w.transitions(ws), ws.ObjectMeta)
	}
	w.must(w.drive())
	if w.object(devName) != nil {
		t.Errorf("builds %s", w.transitions(ws))
	}
}

func TestOrphanKeepsForeignFinalizers(t *testing.T) {
	w := newFixture(t)
	unmatched(w)
	w.mustUpdate(devName, func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Finalizers = []string{"x.example.com/y"} })
	w.must(act(actionOrphan)(w))
	w.mirror()
	if ws := w.object(devName); w.transitions(ws) != "start" || !strings.Contains(messageOf(ws, "Ready"), "x.example.com/y") {
		t.Errorf("builds %s", w.transitions(ws))
	}
	w.mustUpdate(devName, func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Finalizers = nil })
	w.mirror()
	if ws := w.object(devName); ws != nil {
		t.Errorf("builds %s", w.transitions(ws))
	}
}

// TestOrphanIsRefused checks that nothing is recorded if Coder would refuse the deletion, and that a
// workspace with another UID is not deleted.
func TestOrphanIsRefused(t *testing.T) {
	w := newFixture(t)
	unmatched(w)
	w.coder.Fail(coderdtest.Fault{Method: http.MethodGet, PathPrefix: "/api/v2/workspaces", Status: http.StatusBadGateway, Times: 1})
	if err := act(actionOrphan)(w); err == nil {
		t.Error("it succeeds without an answer of Coder")
	}
	sub := w.kind.Subresources(store{w}, nil)["orphan"].(rest.NamedCreater)
	other := &aggregationv1alpha1.CoderWorkspaceAction{ObjectMeta: metav1.ObjectMeta{UID: types.UID("other")}}
	if _, err := sub.Create(t.Context(), devName, other, nil, &metav1.CreateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("with another UID: %v", err)
	}
	ctx := withAction(w.asAda(), actionOrphan)
	_, err := w.update(ctx, devName, func(ws *aggregationv1alpha1.CoderWorkspace) {
		w.must((&actionREST{action: actionOrphan}).change(ws, nil))
	})
	if !apierrors.IsForbidden(err) {
		t.Errorf("a member of Coder: %v", err)
	}
	w.mirror()
	if ws := w.object(devName); ws.DeletionTimestamp != nil || w.transitions(ws) != "start" {
		t.Errorf("builds %s: %+v", w.transitions(ws), ws.ObjectMeta)
	}
}
