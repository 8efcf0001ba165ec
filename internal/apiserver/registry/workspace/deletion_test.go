package workspace

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

func TestDelete(t *testing.T) {
	w := newFixture(t, coderdtest.WithManualBuilds())
	w.coder.AddWorkspace("ada", w.template, "dev")
	w.mirror()
	w.must(w.delete(devName))
	ws := w.object(devName)
	if ws.DeletionTimestamp == nil || ws.Status.Phase != "Deleting" || conditionOf(ws, "Ready") != "False Deleting" || conditionOf(ws, "Reconciling") != "True Deleting" {
		t.Errorf("while it is deleted: %+v", ws)
	}
	w.coder.ResetRequests()
	w.must(w.delete(devName))
	w.mirror()
	if n := w.coder.Writes(); n != 0 {
		t.Errorf("again: %v", w.coder.Requests())
	}
	w.coder.FinishBuilds()
	w.mirror()
	if w.object(devName) != nil || w.transitions(ws) != "start delete" || len(w.records.All()) != 0 {
		t.Errorf("builds %s, records %v", w.transitions(ws), w.records.All())
	}
}

// TestRemoved covers a removal of the object by the storage.
func TestRemoved(t *testing.T) {
	w := newFixture(t)
	w.coder.AddWorkspace("ada", w.template, "dev")
	w.mirror()
	ws := w.object(devName)
	left, err := w.kind.Write(t.Context(), "key", ws, nil)
	w.must(err)
	if left == nil || left.GetDeletionTimestamp() == nil || w.transitions(ws) != "start delete" {
		t.Errorf("builds %s: %v", w.transitions(ws), left)
	}
}

func TestForeignFinalizers(t *testing.T) {
	w := newFixture(t)
	w.coder.AddWorkspace("ada", w.template, "dev")
	w.mirror()
	w.mustUpdate(devName, func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Finalizers = []string{"x.example.com/y"} })
	w.must(w.delete(devName))
	w.mirror()
	ws := w.object(devName)
	if c := meta.FindStatusCondition(ws.Status.Conditions, "Ready"); w.transitions(ws) != "start" || !strings.Contains(c.Message, "x.example.com/y") {
		t.Errorf("builds %s, %+v", w.transitions(ws), c)
	}
	w.mustUpdate(devName, func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Finalizers = nil })
	w.mirror()
	if w.transitions(ws) != "start delete" || w.object(devName) != nil {
		t.Errorf("builds %s", w.transitions(ws))
	}
}

func TestDeletionFails(t *testing.T) {
	w := newFixture(t)
	w.coder.AddWorkspace("ada", w.template, "dev")
	w.coder.SetBuildResult("dev", coderdtest.BuildResult{Error: "terraform cannot destroy"})
	w.mirror()
	w.must(w.delete(devName))
	w.mirror()
	ws := w.object(devName)
	c := meta.FindStatusCondition(ws.Status.Conditions, "DeletionFailed")
	if c == nil || c.Status != "True" || !strings.Contains(c.Message, "terraform cannot destroy") || ws.DeletionTimestamp == nil || conditionOf(ws, "Ready") != "False Deleting" {
		t.Errorf("%+v", ws)
	}
	// The delay doubles from one minute up to half an hour.
	rests := []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 30 * time.Minute, 30 * time.Minute}
	builds := 2
	for _, wait := range rests {
		w.pass(wait - 5*time.Second)
		w.restart()
		w.mirror()
		if got := len(strings.Fields(w.transitions(ws))); got != builds {
			t.Fatalf("%d builds before %s have passed, want %d", got, wait, builds)
		}
		w.pass(6 * time.Second)
		w.mirror()
		builds++
		if got := len(strings.Fields(w.transitions(ws))); got != builds {
			t.Fatalf("%d builds after %s, want %d", got, wait, builds)
		}
	}
	w.coder.SetBuildResult("dev", coderdtest.BuildResult{})
	w.pass(30 * time.Minute)
	w.mirror()
	if w.object(devName) != nil || len(w.records.All()) != 0 {
		t.Errorf("in the end: %+v", w.object(devName))
	}
}

// otherClock is a clock that differs from another one.
type otherClock struct {
	clock.PassiveClock
	by time.Duration
}

func (c *otherClock) Now() time.Time { return c.PassiveClock.Now().Add(c.by) }

// TestDeletionFailsWithAnotherClock checks that the delays after failed deletions do not depend on Coder's clock, and that a failure
// which a replica with another clock has recorded does not prevent the next attempt.
func TestDeletionFailsWithAnotherClock(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, by := range []time.Duration{10 * time.Minute, -10 * time.Minute, 10 * year, -10 * year} {
		t.Run(by.String(), func(t *testing.T) {
			coders := &otherClock{clocktesting.NewFakePassiveClock(time.Date(2026, time.November, 20, 12, 0, 0, 0, time.UTC)), by}
			w := newFixture(t, coderdtest.WithClock(coders))
			coders.PassiveClock = w.clock
			w.coder.AddWorkspace("ada", w.template, "dev")
			w.coder.SetBuildResult("dev", coderdtest.BuildResult{Error: "terraform cannot destroy"})
			w.mirror()
			w.must(w.delete(devName))
			w.mirror()
			ws := w.object(devName)
			builds := func(after time.Duration, want string) {
				t.Helper()
				w.pass(after)
				w.mirror()
				if got := w.transitions(ws); got != want {
					t.Fatalf("after %s the builds are %q, want %q", after, got, want)
				}
			}
			builds(55*time.Second, "start delete")
			builds(6*time.Second, "start delete delete")
			builds(115*time.Second, "start delete delete")
			builds(6*time.Second, "start delete delete delete")
			w.clock.SetTime(w.clock.Now().Add(-10 * year))
			builds(0, "start delete delete delete delete")
		})
	}
}

func TestDeletionIsRefused(t *testing.T) {
	w := newFixture(t)
	id := w.coder.AddWorkspace("ada", w.template, "dev")
	w.mirror()
	lift := w.coder.Fail(coderdtest.Fault{Method: http.MethodPost, PathPrefix: "/api/v2/workspaces/" + id.String(), Status: http.StatusForbidden, Message: "Ask the owner."})
	w.must(w.delete(devName))
	w.mirror()
	ws := w.object(devName)
	if c := meta.FindStatusCondition(ws.Status.Conditions, "DeletionFailed"); c == nil || !strings.Contains(c.Message, "Ask the owner") {
		t.Errorf("%+v", ws.Status.Conditions)
	}
	lift()
	w.mirror()
	if got := w.transitions(ws); got != "start" {
		t.Errorf("builds %s at once", got)
	}
	w.pass(time.Minute)
	w.mirror()
	if got := w.transitions(ws); got != "start delete" {
		t.Errorf("builds %s", got)
	}
}

// TestDeletionWithADeletedToken checks that Coder deleting the tokens of a mapped user does not count
// as a refusal of the deletion.
func TestDeletionWithADeletedToken(t *testing.T) {
	w := newFixture(t, coderdtest.WithManualBuilds())
	w.coder.AddWorkspace("ada", w.template, "dev")
	w.mirror()
	w.mustUpdate(devName, running(false))
	w.must(w.deleteAs(w.asAda(), devName))
	w.deleteTokensOfAda()
	w.coder.FinishBuilds()
	if _, err := w.look(); !coderd.IsUnauthorized(err) {
		t.Errorf("with the deleted token: %v", err)
	}
	ws := w.object(devName)
	if c := meta.FindStatusCondition(ws.Status.Conditions, "DeletionFailed"); c != nil {
		t.Errorf("%+v", c)
	}
	w.must(w.drive())
	if got := w.transitions(ws); got != "start stop delete" {
		t.Errorf("builds %s", got)
	}
}

// TestDeletionInCoder covers a deletion that a user started in Coder. The object shows it while it
// runs. It is not retried if it fails.
func TestDeletionInCoder(t *testing.T) {
	w := newFixture(t, coderdtest.WithManualBuilds())
	id := w.coder.AddWorkspace("ada", w.template, "dev")
	w.mirror()
	client := w.provider.connection.Client
	w.coder.SetBuildResult("dev", coderdtest.BuildResult{Error: "no"})
	_, err := client.Build(t.Context(), id, deleteBuild())
	w.must(err)
	w.mirror()
	if ws := w.object(devName); ws.DeletionTimestamp == nil {
		t.Error("it does not show")
	}
	w.mustUpdate(devName, labelled("a", "b"))
	if ws := w.object(devName); ws.DeletionTimestamp == nil || ws.Labels["a"] != "b" {
		t.Errorf("after a label: %+v", ws.ObjectMeta)
	}
	w.coder.FinishBuilds()
	w.mirror()
	w.pass(time.Hour)
	w.mirror()
	ws := w.object(devName)
	if diff := cmp.Diff([]string{"False BuildFailed", "True BuildFailed", ""}, []string{conditionOf(ws, "Ready"), conditionOf(ws, "Stalled"), conditionOf(ws, "DeletionFailed")}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if ws.DeletionTimestamp != nil || w.transitions(ws) != "start delete" {
		t.Errorf("builds %s", w.transitions(ws))
	}
}
