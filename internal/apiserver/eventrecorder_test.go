package apiserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

var began = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// workspaceAt returns a workspace with a build and with conditions "type status reason".
func workspaceAt(build int32, status, why string, conditions ...string) *aggregationv1alpha1.CoderWorkspace {
	ws := &aggregationv1alpha1.CoderWorkspace{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "coder.ada.dev", UID: "1"}}
	ws.Status.LatestBuild = &aggregationv1alpha1.WorkspaceBuild{Number: build, Status: status, Reason: why}
	for _, c := range conditions {
		words := strings.Fields(c)
		ws.Status.Conditions = append(ws.Status.Conditions, metav1.Condition{
			Type: words[0], Status: metav1.ConditionStatus(words[1]), Reason: words[2], Message: "what " + words[2] + " means",
			LastTransitionTime: metav1.NewTime(began),
		})
	}
	return ws
}

func templateAt(active, latest, status string) *aggregationv1alpha1.CoderTemplate {
	tmpl := &aggregationv1alpha1.CoderTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "coder.starter", UID: "2"}}
	tmpl.Status = aggregationv1alpha1.CoderTemplateStatus{
		ActiveVersionID: active, ActiveVersionName: active, LatestVersionID: latest, LatestVersionName: latest, LatestVersionStatus: status,
		LatestVersionError: "Error: bad syntax on main.tf line 3",
	}
	return tmpl
}

func TestOccurrences(t *testing.T) {
	connected := workspaceAt(1, "running", "initiator", "AgentsConnected True AgentsConnected")
	lost := workspaceAt(1, "running", "initiator", "AgentsConnected False AgentsUnavailable")
	pulls := workspaceAt(1, "running", "initiator", "AgentsConnected True AgentsConnected", "PodsHealthy False ImagePullFailed")
	connecting := workspaceAt(1, "running", "initiator", "AgentsConnected False AgentsConnecting")
	for name, c := range map[string]struct {
		before, after runtime.Object
		want          string
	}{
		"nothing":          {connected, connected.DeepCopy(), ""},
		"first connection": {connecting, connected, ""},
		"lost":             {connected, lost, "Warning AgentsUnavailable: what AgentsUnavailable means"},
		"never connected":  {connecting, lost, "Warning AgentsUnavailable: what AgentsUnavailable means"},
		"back":             {lost, connected, "Normal AgentsConnected: all agents are connected again"},
		"pod":              {connected, pulls, "Warning ImagePullFailed: what ImagePullFailed means"},
		"still the pod":    {pulls, pulls.DeepCopy(), ""},
		"the pod is well":  {pulls, connected, ""},
		"failed": {connected, workspaceAt(2, "failed", "initiator", "BuildSucceeded False BuildFailed"),
			"Warning BuildFailed: what BuildFailed means"},
		"stopped by a person": {workspaceAt(2, "stopping", "initiator"), workspaceAt(2, "stopped", "initiator"), ""},
		"stopped by schedule": {workspaceAt(2, "stopping", "autostop"), workspaceAt(2, "stopped", "autostop"),
			"Normal StoppedBySchedule: Coder stopped the workspace because of its schedule or time limit (autostop)"},
		"promoted":       {templateAt("a", "b", "succeeded"), templateAt("b", "b", "succeeded"), `Normal VersionPromoted: version "b" is active; the former version was "a"`},
		"version failed": {templateAt("a", "b", "running"), templateAt("a", "b", "failed"), `Warning BuildFailed: building version "b" failed: Error: bad syntax on main.tf line 3`},
		"failed before":  {templateAt("a", "b", "failed"), templateAt("a", "b", "failed"), ""},
		"another kind":   {connected, templateAt("a", "b", "failed"), ""},
	} {
		var got []string
		for _, o := range occurrencesOf(c.before, c.after) {
			level := map[bool]string{true: "Warning", false: "Normal"}[o.warning]
			got = append(got, level+" "+o.reason+": "+o.note)
		}
		if diff := cmp.Diff(c.want, strings.Join(got, "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestEventOfFailedTests: each failure of a candidate is one occurrence, also if Ready stays false while the test runs again.
func TestEventOfFailedTests(t *testing.T) {
	at := func(candidate, reason string, since time.Time) *aggregationv1alpha1.CoderTemplate {
		tmpl := templateAt("a", candidate, "succeeded")
		tmpl.Status.Candidate = &aggregationv1alpha1.TemplateCandidate{ID: candidate}
		stalled := map[string]metav1.ConditionStatus{"TestsFailed": metav1.ConditionTrue, "TestsRunning": metav1.ConditionFalse}[reason]
		tmpl.Status.Conditions = []metav1.Condition{
			{Type: "Ready", Status: metav1.ConditionFalse, Reason: reason, LastTransitionTime: metav1.NewTime(began)},
			{Type: "Stalled", Status: stalled, Reason: reason, Message: "test failed", LastTransitionTime: metav1.NewTime(since)},
		}
		return tmpl
	}
	keys := map[string]bool{}
	var last *aggregationv1alpha1.CoderTemplate
	for i, c := range []struct {
		candidate, reason string
		failures          int
	}{
		{"b", "TestsRunning", 0}, {"b", "TestsFailed", 1}, {"b", "TestsFailed", 1}, {"b", "TestsRunning", 1}, {"b", "TestsFailed", 2}, {"c", "TestsFailed", 3},
	} {
		next := at(c.candidate, c.reason, began.Add(time.Duration(i)*time.Minute))
		if last != nil {
			for _, o := range occurrencesOf(last, next) {
				keys[o.reason+o.key] = true
			}
		}
		if last = next; len(keys) != c.failures {
			t.Errorf("step %d: %d Events, want %d: %v", i, len(keys), c.failures, keys)
		}
	}
}

// runRecorder starts an eventRecorder, and returns it with a function that stops it.
func runRecorder(t *testing.T, kube *fake.Clientset, clock *clocktesting.FakePassiveClock, identity string) (*eventRecorder, func()) {
	t.Helper()
	r := newEventRecorder(eventConfig{Client: kube, Clock: clock, Identity: identity})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); r.Run(ctx) }()
	polltest.Eventually(t, "it runs", func() error {
		if !r.running.Load() {
			return fmt.Errorf("it does not")
		}
		return nil
	})
	stop := func() { cancel(); <-ended }
	t.Cleanup(stop)
	return r, stop
}

// writtenReasons waits until there are at least want Events, and returns their reasons.
func writtenReasons(t *testing.T, kube *fake.Clientset, want int) (all []string) {
	t.Helper()
	polltest.Eventually(t, fmt.Sprintf("%d Events", want), func() error {
		list, err := kube.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		all = nil
		for _, e := range list.Items {
			all = append(all, e.Reason)
		}
		if len(all) < want {
			return fmt.Errorf("there are %v", all)
		}
		return nil
	})
	slices.Sort(all)
	return all
}

// TestEventsOnceAcrossReplicas covers two replicas that see the same changes one after the other.
func TestEventsOnceAcrossReplicas(t *testing.T) {
	kube, clock := fake.NewClientset(), clocktesting.NewFakePassiveClock(began)
	first, stop := runRecorder(t, kube, clock, "first")
	lost := workspaceAt(1, "running", "initiator", "AgentsConnected False AgentsUnavailable")
	connected := workspaceAt(1, "running", "initiator", "AgentsConnected True AgentsConnected")
	first.Changed(connected, lost, began)
	writtenReasons(t, kube, 1)
	stop()
	first.Changed(lost, connected, began)
	if n := len(first.changes); n != 0 {
		t.Errorf("a replica that does not mirror has %d changes", n)
	}
	second, _ := runRecorder(t, kube, clock, "second")
	second.Changed(connected, lost, began)
	second.Changed(lost, connected, began)
	if diff := cmp.Diff([]string{"AgentsConnected", "AgentsUnavailable"}, writtenReasons(t, kube, 2)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	list, err := kube.EventsV1().Events("team").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Regarding.Kind != "CoderWorkspace" || e.Regarding.Name != "coder.ada.dev" || e.Regarding.UID != "1" || e.ReportingController == "" {
			t.Errorf("%+v", e)
		}
	}
}

// TestEventsAreLimited checks the limit of Events for an object that changes often.
func TestEventsAreLimited(t *testing.T) {
	kube, clock := fake.NewClientset(), clocktesting.NewFakePassiveClock(began)
	r, _ := runRecorder(t, kube, clock, "first")
	for i := range int32(20) {
		r.Changed(workspaceAt(i, "running", "initiator"), workspaceAt(i, "failed", "initiator"), began)
	}
	r.Changed(templateAt("a", "b", "running"), templateAt("a", "b", "failed"), began)
	if got := writtenReasons(t, kube, objectEventBurst+1); len(got) != objectEventBurst+1 {
		t.Errorf("%d Events: %v", len(got), got)
	}
}

// TestNoEventsOfTheFirstSync covers a pod problem that may be as old as the workspace.
func TestNoEventsOfTheFirstSync(t *testing.T) {
	kube, clock := fake.NewClientset(), clocktesting.NewFakePassiveClock(began)
	r, _ := runRecorder(t, kube, clock, "first")
	healthy, pulls := workspaceAt(1, "running", "initiator"), workspaceAt(1, "running", "initiator", "PodsHealthy False ImagePullFailed")
	pulls.CreationTimestamp = metav1.NewTime(began.Add(-time.Hour))
	r.Changed(healthy, pulls, began)
	if n := len(r.changes); n != 0 {
		t.Errorf("%d changes in the first sync", n)
	}
	r.Changed(healthy, pulls, began.Add(-podProblemsAfter))
	writtenReasons(t, kube, 1)
	made := pulls.DeepCopy()
	made.UID, made.CreationTimestamp = "3", metav1.NewTime(began)
	r.Changed(healthy, made, began)
	writtenReasons(t, kube, 2)
}

func TestEventNamesAndNotesAreValid(t *testing.T) {
	r := newEventRecorder(eventConfig{Clock: clocktesting.NewFakePassiveClock(began)})
	ws := workspaceAt(1, "failed", "initiator")
	ws.Name = strings.Repeat("a", 229) + "." + strings.Repeat("b", 20)
	e := r.event(ws, occurrence{reason: "BuildFailed", note: strings.Repeat("x", 5000), key: "1"})
	if len(e.Name) > 253 || strings.Contains(e.Name, "..") || len(e.Note) > 1024 {
		t.Errorf("%d bytes of name %s, %d of note", len(e.Name), e.Name, len(e.Note))
	}
}
