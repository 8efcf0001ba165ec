package workspace

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records/recordstest"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

var built = time.Date(2026, 11, 20, 12, 0, 0, 123456789, time.UTC)

func workspaceWith(transition coderd.Transition, status string, agents ...coderd.Agent) coderd.Workspace {
	return coderd.Workspace{
		ID: uuid.MustParse("00000000-0000-0000-0000-000000000001"), Name: "Dev", OwnerName: "ada", OrganizationName: "coder",
		TemplateName: "starter", CreatedAt: built, UpdatedAt: built, LastUsedAt: built, Agents: agents,
		LatestBuild: coderd.Build{Number: 3, Transition: transition, Status: status, CreatedAt: built, UpdatedAt: built, Error: "why"},
	}
}

// newKind returns a Kind for conversions only.
func newKind(t *testing.T) (*Kind, *clocktesting.FakePassiveClock) {
	t.Helper()
	clock := clocktesting.NewFakePassiveClock(built.Add(time.Hour))
	return New(Config{Config: registry.Config{Records: recordstest.NewWithClock(t, clock), Clock: clock}}), clock
}

var somewhere = connections.Connection{ControlPlane: types.NamespacedName{Namespace: "team", Name: "cp"}, NamePrefix: "cp."}

func (k *Kind) mustConvert(t *testing.T, w coderd.Workspace, record *metadata.Record, previous *aggregationv1alpha1.CoderWorkspace) *aggregationv1alpha1.CoderWorkspace {
	t.Helper()
	n, err := registry.ReadIntent[intent](record)
	if err != nil {
		t.Fatal(err)
	}
	return k.object(somewhere, w, record, n, previous)
}

func TestConditions(t *testing.T) {
	connected, connecting, lost := coderd.Agent{Name: "a", Status: "connected"}, coderd.Agent{Name: "b", Status: "connecting"}, coderd.Agent{Name: "c", Status: "timeout"}
	broken := coderd.Agent{Name: "d", Status: "connected", LifecycleState: "start_error", Unhealthy: "agent startup script exited with an error"}
	leaving := coderd.Agent{Name: "e", Status: "connected", LifecycleState: "shutting_down", Unhealthy: "agent is shutting down"}
	away := coderd.Agent{Name: "f", Status: "disconnected", LifecycleState: "ready", Unhealthy: "agent has lost connection"}
	asleep := workspaceWith("stop", "stopped")
	asleep.Dormant = true
	for name, c := range map[string]struct {
		workspace                                  coderd.Workspace
		phase                                      string
		ready, reconciling, stalled, build, agents string
		deleting                                   bool
	}{
		"pending":           {workspaceWith("start", "pending"), "Pending", "False BuildPending", "True", "False", "Unknown BuildPending", "False Stopped", false},
		"starting":          {workspaceWith("start", "starting"), "Starting", "False BuildRunning", "True", "False", "Unknown BuildRunning", "False Stopped", false},
		"running":           {workspaceWith("start", "running", connected), "Running", "True Running", "False", "False", "True BuildSucceeded", "True AgentsConnected", false},
		"no agents":         {workspaceWith("start", "running"), "Running", "True Running", "False", "False", "True BuildSucceeded", "True NoAgents", false},
		"an agent connects": {workspaceWith("start", "running", connected, connecting), "Running", "False AgentsConnecting", "True", "False", "True BuildSucceeded", "False AgentsConnecting", false},
		"an agent is lost":  {workspaceWith("start", "running", connecting, lost), "Running", "False AgentsUnavailable", "False", "False", "True BuildSucceeded", "False AgentsUnavailable", false},
		"a script failed":   {workspaceWith("start", "running", broken), "Running", "False AgentsUnhealthy", "False", "True", "True BuildSucceeded", "True AgentsConnected", false},
		"an agent leaves":   {workspaceWith("start", "running", leaving), "Running", "False AgentsUnhealthy", "False", "False", "True BuildSucceeded", "True AgentsConnected", false},
		"disconnected":      {workspaceWith("start", "running", away), "Running", "False AgentsUnavailable", "False", "False", "True BuildSucceeded", "False AgentsUnavailable", false},
		"stopping":          {workspaceWith("stop", "stopping"), "Stopping", "False BuildRunning", "True", "False", "Unknown BuildRunning", "False Stopped", false},
		"stopped":           {workspaceWith("stop", "stopped"), "Stopped", "True Stopped", "False", "False", "True BuildSucceeded", "False Stopped", false},
		"asleep":            {asleep, "Stopped", "True Dormant", "False", "False", "True BuildSucceeded", "False Stopped", false},
		"failed":            {workspaceWith("start", "failed"), "Failed", "False BuildFailed", "False", "True", "False BuildFailed", "False Stopped", false},
		"canceled":          {workspaceWith("start", "canceled"), "Canceled", "False BuildCanceled", "False", "True", "False BuildCanceled", "False Stopped", false},
		"canceling":         {workspaceWith("start", "canceling"), "Canceling", "False BuildRunning", "True", "False", "Unknown BuildRunning", "False Stopped", false},
		"of the future":     {workspaceWith("start", "dreaming"), "Dreaming", "False BuildRunning", "True", "False", "Unknown BuildRunning", "False Stopped", false},
		"deletion queued":   {workspaceWith("delete", "pending"), "Deleting", "False Deleting", "True", "False", "Unknown BuildPending", "False Stopped", true},
		"deleting":          {workspaceWith("delete", "deleting"), "Deleting", "False Deleting", "True", "False", "Unknown BuildRunning", "False Stopped", true},
		"deletion failed":   {workspaceWith("delete", "failed"), "Failed", "False BuildFailed", "False", "True", "False BuildFailed", "False Stopped", false},
	} {
		t.Run(name, func(t *testing.T) {
			k, _ := newKind(t)
			ws := k.mustConvert(t, c.workspace, nil, nil)
			got := map[string]string{}
			for _, condition := range ws.Status.Conditions {
				got[condition.Type] = string(condition.Status) + " " + condition.Reason
				if condition.Type == "Reconciling" || condition.Type == "Stalled" {
					got[condition.Type] = string(condition.Status)
				}
				if !condition.LastTransitionTime.Equal(&metav1.Time{Time: built.Truncate(time.Second)}) || condition.Message == "" || condition.ObservedGeneration != 1 {
					t.Errorf("%+v", condition)
				}
			}
			want := map[string]string{
				"Ready": c.ready, "Reconciling": c.reconciling, "Stalled": c.stalled, "BuildSucceeded": c.build, "AgentsConnected": c.agents,
				"Synced": "True Synced", "Outdated": "False UpToDate",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if ws.Status.Phase != c.phase || (ws.DeletionTimestamp != nil) != c.deleting {
				t.Errorf("phase %s, deletionTimestamp %v", ws.Status.Phase, ws.DeletionTimestamp)
			}
			if ws.Name != "cp.coder.ada.dev" || ws.CreationTimestamp.Nanosecond() != 0 {
				t.Errorf("name %s, created %s", ws.Name, ws.CreationTimestamp)
			}
			if diff := cmp.Diff(ws, k.mustConvert(t, c.workspace, nil, ws)); diff != "" {
				t.Errorf("the same again differs (-first +second):\n%s", diff)
			}
		})
	}
}

// TestTransitionTimes covers the last transition times of conditions.
func TestTransitionTimes(t *testing.T) {
	k, clock := newKind(t)
	at := func(ws *aggregationv1alpha1.CoderWorkspace, kind string) string {
		return meta.FindStatusCondition(ws.Status.Conditions, kind).LastTransitionTime.UTC().Format(time.TimeOnly)
	}
	w := workspaceWith("start", "running", coderd.Agent{Name: "a", Status: "connecting"})
	first := k.mustConvert(t, w, nil, nil)
	w.Agents[0].Status = "connected"
	second := k.mustConvert(t, w, nil, first)
	if at(first, "Ready") != "12:00:00" || at(second, "Ready") != "13:00:00" || at(second, "AgentsConnected") != "13:00:00" || at(second, "BuildSucceeded") != "12:00:00" {
		t.Errorf("an agent connects: %+v", second.Status.Conditions)
	}
	clock.SetTime(built.Add(3 * time.Hour))
	third := k.mustConvert(t, w, nil, second)
	if diff := cmp.Diff(second, third); diff != "" {
		t.Errorf("nothing happens (-before +after):\n%s", diff)
	}
	w.LatestBuild = coderd.Build{Number: 4, Transition: "stop", Status: "stopping", CreatedAt: built, UpdatedAt: built.Add(2 * time.Hour)}
	fourth := k.mustConvert(t, w, nil, third)
	if at(fourth, "Ready") != "14:00:00" || at(fourth, "BuildSucceeded") != "14:00:00" || at(fourth, "Synced") != "12:00:00" {
		t.Errorf("a build: %+v", fourth.Status.Conditions)
	}
	if fourth.Generation != 2 || third.Generation != 1 {
		t.Errorf("generations %d and %d", third.Generation, fourth.Generation)
	}
}

func TestUseDoesNotChangeTheObject(t *testing.T) {
	k, _ := newKind(t)
	w := workspaceWith("start", "running")
	first := k.mustConvert(t, w, nil, nil)
	w.LastUsedAt = built.Add(59 * time.Minute)
	if diff := cmp.Diff(first, k.mustConvert(t, w, nil, first)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	w.LastUsedAt = built.Add(time.Hour)
	if got := k.mustConvert(t, w, nil, first).Status.LastUsedAt; !got.Equal(&metav1.Time{Time: built.Truncate(time.Second).Add(time.Hour)}) {
		t.Errorf("last used %s", got)
	}
	// Coder's clock was three hours ahead. The value must not stay in the future.
	w.LastUsedAt = built.Add(4 * time.Hour)
	ahead := k.mustConvert(t, w, nil, first)
	w.LastUsedAt = built.Add(time.Hour)
	if got := k.mustConvert(t, w, nil, ahead).Status.LastUsedAt; !got.Equal(&metav1.Time{Time: built.Truncate(time.Second).Add(time.Hour)}) {
		t.Errorf("after Coder's clock was set back: last used %s", got)
	}
}

// TestLastUse covers that lastUsedAt is never before the creation.
func TestLastUse(t *testing.T) {
	k, _ := newKind(t)
	w := workspaceWith("start", "running")
	w.LastUsedAt = w.CreatedAt.Add(-time.Hour)
	if ws := k.mustConvert(t, w, nil, nil); !ws.Status.LastUsedAt.Equal(&ws.CreationTimestamp) {
		t.Errorf("used at %s, made at %s", ws.Status.LastUsedAt, ws.CreationTimestamp)
	}
}

func TestOverlay(t *testing.T) {
	k, _ := newKind(t)
	record := &metadata.Record{
		Labels:     map[string]string{"a": "b", aggregationv1alpha1.LabelControlPlaneName: "forged"},
		Finalizers: []string{"x.example.com/y"}, Generation: 7, DeletionTimestamp: &metav1.Time{Time: built.Truncate(time.Second)},
		Intent: []byte(`{"change":{"running":false,"observed":6}}`),
	}
	ws := k.mustConvert(t, workspaceWith("start", "running"), record, nil)
	if diff := cmp.Diff(map[string]string{"a": "b", aggregationv1alpha1.LabelControlPlaneName: "cp", aggregationv1alpha1.LabelControlPlaneNamespace: "team"}, ws.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if ws.Generation != 7 || ws.Status.ObservedGeneration != 6 || *ws.Spec.Running || ws.DeletionTimestamp == nil || len(ws.Finalizers) != 2 {
		t.Errorf("%+v %+v", ws.ObjectMeta, ws.Spec)
	}
	// An intent that cannot be parsed loses only its own content, not the object.
	record.Intent = []byte(`{"change":7}`)
	obj, err := k.Object(t.Context(), somewhere, workspaceWith("start", "running"), record, nil)
	if err != nil || obj.GetLabels()["a"] != "b" {
		t.Errorf("%v: %v", err, obj)
	}
	if _, err := k.Settle(t.Context(), somewhere, workspaceWith("start", "running"), record); err == nil {
		t.Error("nothing is said of an intent that cannot be read")
	}
}

func TestUnreachable(t *testing.T) {
	k, _ := newKind(t)
	ws := k.mustConvert(t, workspaceWith("start", "running"), nil, nil)
	away := k.Unreachable(ws, built.Add(time.Minute), "no route").(*aggregationv1alpha1.CoderWorkspace)
	c := meta.FindStatusCondition(away.Status.Conditions, "Synced")
	if conditionOf(away, "Synced") != "False CoderUnreachable" || !c.LastTransitionTime.Equal(ptr.To(metav1.NewTime(built.Truncate(time.Second).Add(time.Minute)))) {
		t.Errorf("%+v", c)
	}
	if conditionOf(away, "Ready") != "True Running" || conditionOf(ws, "Synced") != "True Synced" {
		t.Error("another condition or the object before changed")
	}
	if k.Unreachable(away, built.Add(time.Hour), "still no route") != nil {
		t.Error("it is told twice")
	}
	read := k.mustConvert(t, workspaceWith("start", "running"), nil, away)
	if conditionOf(read, "Synced") != "True Synced" {
		t.Errorf("after a read: %+v", read.Status.Conditions)
	}
	labelled := k.relabelled(away, away, &metadata.Record{Labels: map[string]string{"a": "b"}}, intent{})
	if conditionOf(labelled, "Synced") != "False CoderUnreachable" || labelled.Labels["a"] != "b" {
		t.Errorf("after a label: %+v", labelled.Status.Conditions)
	}
}

// TestParametersAreReadOnce counts the requests that showing parameters takes: none for a workspace
// whose parameters were never set through this API, otherwise one for each build. A new process
// needs no further request.
func TestParametersAreReadOnce(t *testing.T) {
	w := newFixture(t)
	for _, name := range []string{"one", "two", "three"} {
		w.coder.AddWorkspace("ada", w.template, name)
	}
	id := w.coder.AddWorkspace("ada", w.template, "dev")
	w.coder.ResetRequests()
	w.mirror()
	reads := func() int { return w.coder.Requests()["GET /api/v2/workspacebuilds/{build}/parameters"] }
	if n := reads(); n != 0 {
		t.Errorf("%d reads of parameters that nobody asked for", n)
	}
	w.mustUpdate(devName, parameter("size", "2"))
	w.mirror()
	w.coder.ResetRequests()
	for range 3 {
		w.restart()
		w.mirror()
	}
	if n := reads(); n != 0 {
		t.Errorf("%d reads of what was written here", n)
	}
	w.coder.BuildWorkspace(id, "stop")
	for range 3 {
		w.mirror()
		w.restart()
	}
	if n := reads(); n != 1 {
		t.Errorf("%d reads for one build", n)
	}
	if got := w.object(devName).Spec.Parameters; len(got) != 1 || got[0].Value != "2" {
		t.Errorf("parameters %+v", got)
	}
}

// TestUID checks that the UID of a new object depends on the control plane and is not the id, which Coder
// chooses, and that an existing object keeps its UID.
func TestUID(t *testing.T) {
	k, _ := newKind(t)
	w := workspaceWith("start", "running")
	seen := map[types.UID]string{types.UID(w.ID.String()): "the id in Coder"}
	for name, connection := range map[string]connections.Connection{
		"one":                       {ControlPlane: types.NamespacedName{Namespace: "team", Name: "one"}, UID: "1"},
		"of another namespace":      {ControlPlane: types.NamespacedName{Namespace: "other", Name: "one"}, UID: "2"},
		"created again":             {ControlPlane: types.NamespacedName{Namespace: "team", Name: "one"}, UID: "3"},
		"without a control plane":   {ControlPlane: types.NamespacedName{Namespace: "team"}},
		"in another one without it": {ControlPlane: types.NamespacedName{Namespace: "other"}},
	} {
		object, err := k.Object(t.Context(), connection, w, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[object.GetUID()]; ok || uuid.Validate(string(object.GetUID())) != nil {
			t.Errorf("%s: the UID %s is that of %s", name, object.GetUID(), other)
		}
		seen[object.GetUID()] = name
		if again, err := k.Object(t.Context(), connection, w, nil, nil); err != nil || again.GetUID() != object.GetUID() {
			t.Errorf("%s: the UID changes: %v", name, err)
		}
		object.SetUID(types.UID(w.ID.String()))
		if again, err := k.Object(t.Context(), connection, w, nil, object); err != nil || again.GetUID() != object.GetUID() {
			t.Errorf("%s: the UID of an object of an earlier version changes to %s: %v", name, again.GetUID(), err)
		}
	}
}
