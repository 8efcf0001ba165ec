package apiserver

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// eventsOf returns "reason name" of each Event of the fixture.
func (f *fixture) eventsOf(t *testing.T) []string {
	t.Helper()
	list, err := f.kube.EventsV1().Events(f.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range list.Items {
		all = append(all, e.Reason+" "+e.Regarding.Name)
	}
	return all
}

// TestEvents disconnects an agent without a change of a pod or a build. The next replica does not
// repeat the Event, and the first read of a state causes none.
func TestEvents(t *testing.T) {
	t.Parallel()
	s := newRestingSite(t)
	f := join(t, s)
	id := f.addWorkspace(t, "dev")
	f.coder.SetAgents(id, coderdtest.Agent{Name: "main", Status: "connected", LifecycleState: "ready"})
	f.hint(id)
	ready := func(want string) {
		t.Helper()
		f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool { return condition(ws, "Ready") == want })
	}
	ready("True Running")
	if got := f.eventsOf(t); len(got) != 0 {
		t.Errorf("of a workspace that came: %v", got)
	}
	f.coder.SetAgents(id, coderdtest.Agent{Name: "main", Status: "disconnected", LifecycleState: "ready"})
	ready("False AgentsUnavailable")
	has := func(want ...string) {
		t.Helper()
		polltest.Eventually(t, "the Events", func() error {
			if got := f.eventsOf(t); strings.Join(got, ",") != strings.Join(want, ",") {
				return fmt.Errorf("they are %v, want %v", got, want)
			}
			return nil
		})
	}
	const lost, back = "AgentsUnavailable coder.ada.dev", "AgentsConnected coder.ada.dev"
	has(lost)
	s.restart(t)
	f.coder.SetAgents(id, coderdtest.Agent{Name: "main", Status: "connected", LifecycleState: "ready"})
	ready("True Running")
	polltest.Eventually(t, "the Events", func() error {
		if got := f.eventsOf(t); len(got) != 2 || got[0] != lost && got[1] != lost || got[0] != back && got[1] != back {
			return fmt.Errorf("they are %v", got)
		}
		return nil
	})
}

// TestWhyABuildFailed checks that the error of Terraform is shown if Coder reports only "exit
// status 1".
func TestWhyABuildFailed(t *testing.T) {
	f := newFixture(t)
	f.addWorkspace(t, "dev")
	f.templateIs(t, func(*unstructured.Unstructured) bool { return true })
	failing := coderdtest.BuildResult{Error: "terraform plan: exit status 1", Hold: true}
	f.coder.SetBuildResult("dev", failing)
	f.coder.SetBuildResult("starter", failing)
	patch(t, f.ws(), "coder.ada.dev", `{"spec":{"running":false}}`)
	patch(t, f.tmpl(), "coder.starter", `{"spec":{"files":{"main.tf":"# two"}}}`)
	ws := f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool { return at(ws, "status", "phase") == "Pending" })
	tmpl := f.templateIs(t, func(tmpl *unstructured.Unstructured) bool {
		return at(tmpl, "status", "latestVersionStatus") == "pending"
	})
	log := []string{
		"Error: Invalid count", `on main.tf line 3, in resource "kubernetes_pod" "main":`, "  3:   count = var.n", "    ├────────────────",
		`    │ var.n is "hunter2"`, "", "a number is required",
	}
	f.coder.WriteLog(uuid.MustParse(at(ws, "status", "latestBuildID")), "Planning", log...)
	f.coder.WriteLog(uuid.MustParse(at(tmpl, "status", "latestVersionID")), "Planning", log...)
	f.coder.FinishBuilds()
	const cause = `Error: Invalid count on main.tf line 3, in resource "kubernetes_pod" "main": a number is required`
	ws = f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool { return condition(ws, "Ready") == "False BuildFailed" })
	tmpl = f.templateIs(t, func(tmpl *unstructured.Unstructured) bool { return condition(tmpl, "Ready") == "False BuildFailed" })
	if got := at(ws, "status", "latestBuildError"); got != cause {
		t.Errorf("the workspace says %q", got)
	}
	if got := at(tmpl, "status", "latestVersionError"); got != cause {
		t.Errorf("the template says %q", got)
	}
	polltest.Eventually(t, "the Events", func() error {
		list, err := f.kube.EventsV1().Events(f.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		failed := 0
		for _, e := range list.Items {
			if e.Reason == "BuildFailed" && strings.Contains(e.Note, cause) {
				failed++
			}
		}
		if failed != 2 {
			return fmt.Errorf("they are %v", list.Items)
		}
		return nil
	})
	// A write on a replica that has not read the records keeps the error.
	patch(t, f.ws(), "coder.ada.dev", `{"metadata":{"labels":{"a":"b"}}}`)
	if got := at(f.workspace(t, "coder.ada.dev", func(*unstructured.Unstructured) bool { return true }), "status", "latestBuildError"); got != cause {
		t.Errorf("after a write the workspace says %q", got)
	}
}
