package workspace

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// newVersion adds a version to the template, and returns a change to it.
func newVersion(w *fixture) edit {
	id := w.coder.AddTemplateVersion(w.template, "second", map[string]string{"main.tf": templateFiles}).String()
	return func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.TemplateVersionID = id }
}

// TestChangeStopsFirst checks that a change that needs a build stops a workspace that runs, and then starts
// it with the change.
func TestChangeStopsFirst(t *testing.T) {
	preset := func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.TemplateVersionPreset = "big" }
	for name, c := range map[string]struct {
		before edit
		change edit
		builds string
	}{
		"a version":                      {nil, nil, "start stop start"},
		"a parameter":                    {nil, parameter("size", "3"), "start stop start"},
		"a preset":                       {nil, preset, "start stop start"},
		"a stopped workspace":            {running(false), parameter("size", "3"), "start stop stop"},
		"a stopped workspace is started": {running(false), all(running(true), parameter("size", "3")), "start stop start"},
		"together with a stop":           {nil, all(running(false), parameter("size", "3")), "start stop"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			there(w)
			change := c.change
			if change == nil {
				change = newVersion(w)
			}
			if c.before != nil {
				w.mustUpdate(devName, c.before)
				w.mirror()
			}
			w.coder.ResetRequests()
			wanted := w.object(devName).DeepCopy()
			change(wanted)
			w.must(w.kind.CheckUpdate(t.Context(), wanted, w.object(devName)))
			if n := w.coder.Writes(); n > 0 {
				t.Errorf("the dry run writes: %v", w.coder.Requests())
			}
			answer := w.mustUpdate(devName, change)
			w.mirror()
			ws := w.object(devName)
			if w.transitions(ws) != c.builds || conditionOf(ws, "Synced") != "True Synced" || ws.Spec.TemplateVersionID != wanted.Spec.TemplateVersionID ||
				*ws.Spec.Running != *wanted.Spec.Running || *answer.Spec.Running != *wanted.Spec.Running {
				t.Errorf("builds %q, want %q: %+v", w.transitions(ws), c.builds, ws.Spec)
			}
		})
	}
}

// TestFailedStartIsNotStopped checks that the correction of a start that failed needs no stop, which could
// fail for the same reason.
func TestFailedStartIsNotStopped(t *testing.T) {
	w := newFixture(t)
	there(w)
	w.coder.SetBuildResult("dev", coderdtest.BuildResult{Error: "no such image"})
	w.mustUpdate(devName, running(false))
	w.mirror()
	w.must(act(actionStart)(w))
	w.mirror()
	w.coder.SetBuildResult("dev", coderdtest.BuildResult{})
	w.mustUpdate(devName, newVersion(w))
	w.mirror()
	if ws := w.object(devName); w.transitions(ws) != "start stop start start" || conditionOf(ws, "Ready") != "True Running" {
		t.Errorf("builds %s: %+v", w.transitions(ws), ws.Status.Conditions)
	}
}

// TestStopWinsWhileItStopsFirst checks a client that stops the workspace between the two builds, and one
// that changes it again.
func TestStopWinsWhileItStopsFirst(t *testing.T) {
	w := newFixture(t, coderdtest.WithManualBuilds())
	there(w)
	w.mustUpdate(devName, parameter("size", "3"))
	ws := w.mustUpdate(devName, running(false))
	if *ws.Spec.Running {
		t.Errorf("the answer is %+v", ws.Spec)
	}
	w.restart()
	w.must(w.drive())
	ws = w.object(devName)
	if conditionOf(ws, "Ready") != "True Stopped" || *ws.Spec.Running || ws.Spec.Parameters[0].Value != "3" {
		t.Errorf("builds %s: %+v", w.transitions(ws), ws.Spec)
	}
	w.mustUpdate(devName, running(true))
	w.must(w.drive())
	w.mustUpdate(devName, parameter("size", "4"))
	w.mustUpdate(devName, parameter("size", "5"))
	w.must(w.drive())
	if ws := w.object(devName); !strings.HasSuffix(w.transitions(ws), "start stop start") || ws.Spec.Parameters[0].Value != "5" || conditionOf(ws, "Ready") != "True Running" {
		t.Errorf("builds %s: %+v", w.transitions(ws), ws.Spec)
	}
}

// TestStopBeforeChangeFails checks that a workspace that cannot be stopped is not started over, that the
// change is kept and reported, and that a start applies it.
func TestStopBeforeChangeFails(t *testing.T) {
	w := newFixture(t)
	there(w)
	w.coder.SetBuildResult("dev", coderdtest.BuildResult{Error: "the disk is busy"})
	w.mustUpdate(devName, parameter("size", "3"))
	w.mirror()
	ws := w.object(devName)
	if w.transitions(ws) != "start stop" || conditionOf(ws, "Stalled") != "True ChangeRefused" || !*ws.Spec.Running || ws.Spec.Parameters[0].Value != "3" ||
		!strings.Contains(messageOf(ws, "Ready"), "the workspace must be stopped first, and the stop build failed: the disk is busy") {
		t.Errorf("builds %s: %+v %+v", w.transitions(ws), ws.Spec, ws.Status.Conditions)
	}
	w.coder.SetBuildResult("dev", coderdtest.BuildResult{})
	w.must(act(actionStart)(w))
	w.mirror()
	if ws := w.object(devName); w.transitions(ws) != "start stop start" || conditionOf(ws, "Ready") != "True Running" || ws.Spec.Parameters[0].Value != "3" {
		t.Errorf("after a start: builds %s: %+v", w.transitions(ws), ws.Spec)
	}
}

// TestStartedInCoderWhileItStopsFirst checks that the change is applied although a user of Coder started the
// workspace between the two builds.
func TestStartedInCoderWhileItStopsFirst(t *testing.T) {
	w := newFixture(t, coderdtest.WithManualBuilds())
	there(w)
	w.mustUpdate(devName, parameter("size", "3"))
	w.coder.FinishBuilds()
	_, err := w.provider.connection.Client.Build(t.Context(), uuid.MustParse(w.object(devName).Status.ID), coderd.BuildRequest{Transition: coderd.TransitionStart})
	w.must(err)
	w.must(w.drive())
	ws := w.object(devName)
	values, err := w.kind.valuesOf(t.Context(), w.provider.connection, w.item(ws))
	w.must(err)
	if w.transitions(ws) != "start stop start stop start" || values["size"] != "3" {
		t.Errorf("builds %s: %v", w.transitions(ws), values)
	}
}

// TestStoppedInCoderWhileItStopsFirst checks that a workspace stays stopped if another user of Coder stopped
// it after the change was recorded, and before the replica did.
func TestStoppedInCoderWhileItStopsFirst(t *testing.T) {
	w := newFixture(t)
	there(w)
	alice := w.asAda()
	w.coder.Fail(coderdtest.Fault{Method: http.MethodPost, PathPrefix: "/api/v2/workspaces/", Status: http.StatusBadGateway, Times: 1})
	if _, err := w.update(alice, devName, parameter("size", "3")); err == nil {
		t.Fatal("it could be stopped")
	}
	_, err := w.provider.connection.Client.Build(t.Context(), uuid.MustParse(w.object(devName).Status.ID), coderd.BuildRequest{Transition: coderd.TransitionStop})
	w.must(err)
	w.must(w.drive())
	ws := w.object(devName)
	if w.transitions(ws) != "start stop stop" || conditionOf(ws, "Ready") != "True Stopped" || *ws.Spec.Running || ws.Spec.Parameters[0].Value != "3" {
		t.Errorf("builds %s: %+v", w.transitions(ws), ws.Spec)
	}
}

// TestChangeOfOutdatedVersionIsRefused checks that a workspace is not stopped if its user may not start its
// version again.
func TestChangeOfOutdatedVersionIsRefused(t *testing.T) {
	w := newFixture(t)
	there(w)
	active := w.coder.AddTemplateVersion(w.template, "second", map[string]string{"main.tf": templateFiles})
	w.coder.PatchTemplate(t, w.template, map[string]any{"require_active_version": true, "active_version_id": active})
	w.mirror()
	alice := w.asAda()
	if _, err := w.update(alice, devName, parameter("size", "3")); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), active.String()) {
		t.Errorf("with the old version: %v", err)
	}
	if ws := w.object(devName); w.transitions(ws) != "start" {
		t.Errorf("builds %s", w.transitions(ws))
	}
	_, err := w.update(alice, devName, all(parameter("size", "3"), func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.TemplateVersionID = active.String() }))
	w.must(err)
	w.must(w.drive())
	if ws := w.object(devName); w.transitions(ws) != "start stop start" || conditionOf(ws, "Ready") != "True Running" {
		t.Errorf("builds %s: %+v", w.transitions(ws), ws.Status.Conditions)
	}
}

// TestStartReplacesUnmatchedStop checks the way out if no provisioner takes the stop before a new version.
func TestStartReplacesUnmatchedStop(t *testing.T) {
	w := newFixture(t)
	unmatched(w)
	w.mustUpdate(devName, newVersion(w))
	w.must(w.drive())
	if ws := w.object(devName); w.transitions(ws) != "start stop" || conditionOf(ws, "Ready") != "False NoProvisioner" {
		t.Errorf("builds %s: %+v", w.transitions(ws), ws.Status.Conditions)
	}
	wanted := w.object(devName).Spec.TemplateVersionID
	w.must(act(actionStart)(w))
	w.must(w.drive())
	if ws := w.object(devName); w.transitions(ws) != "start stop start" || conditionOf(ws, "Ready") != "True Running" || ws.Status.LatestBuild.TemplateVersionID != wanted {
		t.Errorf("builds %s: %+v", w.transitions(ws), ws.Status)
	}
}
