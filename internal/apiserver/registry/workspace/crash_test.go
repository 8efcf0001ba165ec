package workspace

import (
	"context"
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// edit is a change of an object.
type edit = func(*aggregationv1alpha1.CoderWorkspace)

func all(edits ...edit) edit {
	return func(ws *aggregationv1alpha1.CoderWorkspace) {
		for _, e := range edits {
			e(ws)
		}
	}
}

// scenario is a write during which a process may die.
type scenario struct {
	// prepare sets up the state before the write.
	prepare func(w *fixture)
	// write is the client's request. It is repeated until it succeeds.
	write func(w *fixture) error
	// once is true if repeating the request would request a second operation.
	once bool
	// builds are the expected builds of the workspace. before is also allowed if the request of the
	// client did not arrive.
	builds, before string
	check          func(ws *aggregationv1alpha1.CoderWorkspace) bool
	least          int
}

// apply does what kubectl apply does.
func apply(change edit) func(w *fixture) error {
	return func(w *fixture) error {
		if w.object(devName) != nil {
			_, err := w.update(context.Background(), devName, change)
			return err
		}
		_, err := w.create(newWorkspace(devName, change))
		return err
	}
}

func there(w *fixture) {
	w.coder.AddWorkspace("ada", w.template, "dev")
	w.mirror()
}

func sharing(w *fixture) {
	w.coder.SetRelease(coderdtest.Release236)
	w.coder.AddUser("bo")
}

// thereAnd returns a prepare function that creates a workspace and changes it.
func thereAnd(change edit) func(w *fixture) {
	return func(w *fixture) {
		there(w)
		w.mustUpdate(devName, change)
		w.must(w.drive())
	}
}

func act(a action) func(w *fixture) error {
	return func(w *fixture) error {
		_, err := w.update(withAction(context.Background(), a), devName, func(ws *aggregationv1alpha1.CoderWorkspace) {
			_ = (&actionREST{action: a}).change(ws, nil)
		})
		return err
	}
}

// orphan deletes the workspace without a build.
func orphan(w *fixture) error {
	if w.object(devName) == nil {
		return nil
	}
	return act(actionOrphan)(w)
}

func remove(w *fixture) error {
	if w.object(devName) == nil {
		return nil
	}
	return w.delete(devName)
}

func scenarios() map[string]scenario {
	blue := labelled("team", "blue")
	isBlue := func(ws *aggregationv1alpha1.CoderWorkspace) bool { return ws.Labels["team"] == "blue" }
	given := all(blue, parameter("size", "3"), func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Spec.TemplateVersionPreset = "big" })
	isGiven := func(ws *aggregationv1alpha1.CoderWorkspace) bool {
		return isBlue(ws) && ws.Spec.TemplateVersionPreset == "big" && slices.Equal(ws.Spec.Parameters, []aggregationv1alpha1.WorkspaceParameter{{Name: "size", Value: "3"}})
	}
	gone := func(ws *aggregationv1alpha1.CoderWorkspace) bool { return ws == nil }
	held := func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Finalizers = append(ws.Finalizers, "x.example.com/y") }
	free := func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Finalizers = nil }
	return map[string]scenario{
		"create":                 {write: apply(blue), builds: "start", check: isBlue, least: 8},
		"create with parameters": {write: apply(given), builds: "start", check: isGiven, least: 9},
		"create stopped": {write: apply(all(blue, running(false))), builds: "start stop", least: 10,
			check: func(ws *aggregationv1alpha1.CoderWorkspace) bool { return isBlue(ws) && ws.Status.Phase == "Stopped" }},
		"create dormant": {write: apply(func(ws *aggregationv1alpha1.CoderWorkspace) {
			ws.Spec.Dormant, ws.Spec.Running = ptr.To(true), ptr.To(false)
		}),
			builds: "start stop", least: 10,
			check: func(ws *aggregationv1alpha1.CoderWorkspace) bool {
				return *ws.Spec.Dormant && conditionOf(ws, "Ready") == "True Dormant"
			}},
		"create, nobody asks again": {write: apply(all(given, running(false))), once: true, builds: "start stop", least: 10,
			check: func(ws *aggregationv1alpha1.CoderWorkspace) bool {
				return ws == nil || isGiven(ws) && ws.Status.Phase == "Stopped"
			}},
		"stop": {prepare: there, write: apply(all(blue, running(false))), builds: "start stop", check: isBlue, least: 4},
		"everything": {prepare: there, builds: "start stop", least: 9,
			write: apply(all(given, running(false), func(ws *aggregationv1alpha1.CoderWorkspace) {
				ws.Spec.TTLMillis, ws.Spec.AutostartSchedule, ws.Spec.AutomaticUpdates = ptr.To[int64](120_000), ptr.To("0 9 * * 1-5"), "always"
			})),
			check: func(ws *aggregationv1alpha1.CoderWorkspace) bool {
				return isGiven(ws) && *ws.Spec.TTLMillis == 120_000 && *ws.Spec.AutostartSchedule != "" && ws.Spec.AutomaticUpdates == "always"
			}},
		"parameters": {prepare: there, write: apply(given), builds: "start stop start", check: isGiven, least: 9},
		"parameters while it starts": {
			prepare: func(w *fixture) {
				there(w)
				w.mustUpdate(devName, running(false))
				w.must(w.drive())
				w.mustUpdate(devName, running(true))
			},
			write: apply(given), builds: "start stop start stop start", check: isGiven, least: 9},
		"start while it stops": {
			prepare: func(w *fixture) { there(w); w.mustUpdate(devName, running(false)) },
			write:   apply(all(given, running(true))), builds: "start stop start", check: isGiven, least: 8},
		"sleep": {prepare: there, builds: "start stop", least: 5,
			write: apply(func(ws *aggregationv1alpha1.CoderWorkspace) {
				ws.Spec.Dormant, ws.Spec.Running = ptr.To(true), ptr.To(false)
			}),
			check: func(ws *aggregationv1alpha1.CoderWorkspace) bool {
				return conditionOf(ws, "Ready") == "True Dormant"
			}},
		"create shared": {prepare: sharing, write: apply(all(blue, shared(bo), running(false))), builds: "start stop", least: 11,
			check: func(ws *aggregationv1alpha1.CoderWorkspace) bool { return isBlue(ws) && isShared(ws, bo) }},
		"share": {prepare: func(w *fixture) { sharing(w); there(w) }, write: apply(all(blue, shared(bo))), builds: "start", least: 6,
			check: func(ws *aggregationv1alpha1.CoderWorkspace) bool { return isBlue(ws) && isShared(ws, bo) }},
		"metadata":                 {prepare: there, write: apply(blue), builds: "start", check: isBlue, least: 1},
		"restart":                  {prepare: thereAnd(blue), write: act(actionRestart), once: true, builds: "start stop start", before: "start", check: isBlue, least: 6},
		"delete":                   {prepare: thereAnd(blue), write: remove, builds: "start delete", check: gone, least: 4},
		"delete, never written to": {prepare: there, write: remove, builds: "start delete", check: gone, least: 4},
		"delete while it stops": {
			prepare: func(w *fixture) { there(w); w.mustUpdate(devName, running(false)) },
			write:   remove, builds: "start stop delete", check: gone, least: 4},
		"orphan":                {prepare: func(w *fixture) { unmatched(w); w.mustUpdate(devName, running(false)) }, write: orphan, builds: "start stop delete", check: gone, least: 5},
		"orphan while deleting": {prepare: func(w *fixture) { unmatched(w); w.must(w.delete(devName)) }, write: orphan, builds: "start delete delete", check: gone, least: 5},
		"delete, held": {prepare: thereAnd(held), write: func(w *fixture) error {
			if err := remove(w); err != nil || w.object(devName) == nil {
				return err
			}
			_, err := w.update(context.Background(), devName, free)
			return err
		}, builds: "start delete", check: gone, least: 5},
	}
}

// TestCrash kills the process at every single record write and request, once before the other side
// receives it and once after. A new process then continues, once with the log and once without.
func TestCrash(t *testing.T) {
	for name, s := range scenarios() {
		for _, lost := range []bool{false, true} {
			for _, forgets := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/answer lost=%t/log lost=%t", name, lost, forgets), func(t *testing.T) {
					kubetest.EachStep(t, s.least, func(at int) bool { return crashAt(t, s, at, lost, forgets) })
				})
			}
		}
	}
}

func crashAt(t *testing.T, s scenario, at int, lost, forgets bool) bool {
	t.Helper()
	w := newFixture(t, coderdtest.WithManualBuilds())
	if s.prepare != nil {
		s.prepare(w)
	}
	w.fault.Set(at, lost)
	reported := s.write(w) == nil
	if reported {
		_ = w.drive()
	}
	struck := w.fault.Struck()
	w.fault.Set(0, false)
	uid := w.uid()
	w.restart()
	if forgets {
		clear(w.log)
	}
	w.must(w.drive())
	if !reported && !s.once {
		if err := s.write(w); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Errorf("the client asks again: %v", err)
		}
		w.must(w.drive())
	}
	w.wantEnd(s, uid, reported)
	w.coder.ResetRequests()
	records := len(w.records.Writes())
	w.restart()
	w.must(w.drive())
	if n := w.coder.Writes(); n != 0 || len(w.records.Writes()) != records {
		t.Errorf("at rest: %v, records %v", w.coder.Requests(), w.records.Writes()[records:])
	}
	if t.Failed() {
		t.Fatalf("after a crash at step %d", at)
	}
	return struck
}

// uid returns the UID of the workspace in Coder, which may have no object yet.
func (w *fixture) uid() types.UID {
	w.t.Helper()
	page, err := w.provider.connection.Client.WorkspacePage(context.Background(), 0, 1)
	w.must(err)
	if len(page.Workspaces) == 0 {
		return ""
	}
	return types.UID(page.Workspaces[0].ID.String())
}

func (w *fixture) wantEnd(s scenario, uid types.UID, reported bool) {
	w.t.Helper()
	ws := w.object(devName)
	if len(w.log) > 1 {
		w.t.Errorf("%d workspaces", len(w.log))
	}
	if uid == "" && ws != nil {
		uid = records.IDOf(ws)
	}
	if !s.check(ws) {
		w.t.Errorf("in the end: %+v", ws)
	}
	if uid != "" {
		builds := w.transitions(withUID(uid))
		if builds != s.builds && (reported || builds != s.before) {
			w.t.Errorf("builds %q, want %q", builds, s.builds)
		}
	}
	if ws != nil && (conditionOf(ws, "Synced") != "True Synced" || ws.Generation != ws.Status.ObservedGeneration) {
		w.t.Errorf("generation %d, observed %d, %s", ws.Generation, ws.Status.ObservedGeneration, conditionOf(ws, "Synced"))
	}
	for _, record := range w.records.All() {
		// The record of a creation that never reached Coder is removed after minutes.
		if ws == nil && (!s.once || !record.Pending()) || ws != nil && record.UID != records.IDOf(ws) {
			w.t.Errorf("a record of nothing: %+v", record)
		}
	}
}

func withUID(uid types.UID) *aggregationv1alpha1.CoderWorkspace {
	ws := &aggregationv1alpha1.CoderWorkspace{}
	ws.UID = uid
	return ws
}
