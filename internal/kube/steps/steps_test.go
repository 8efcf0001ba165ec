package steps

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRunBlocksOnlyWhatNeedsTheFailedStep(t *testing.T) {
	broken := errors.New("broken")
	var ran []string
	step := func(name string, err error, needs ...string) Step[*[]string] {
		return Step[*[]string]{Name: name, Needs: needs, Run: func(_ context.Context, log *[]string) error {
			*log = append(*log, name)
			return err
		}}
	}

	outcome := Run(t.Context(), &ran, []Step[*[]string]{
		step("name", nil),
		step("rbac", broken, "name"),
		step("deployment", nil, "name"),
		step("audit", nil, "rbac"),
		step("report", nil, "audit"),
		step("service", &Waiting{Message: "soon", After: 30 * time.Second}),
		step("access", nil, "deployment", "service"),
		step("pods", &Waiting{Message: "sooner", After: 15 * time.Second}),
		step("license", &Stalled{Reason: "NotImplemented", Message: "never"}),
	})

	if diff := cmp.Diff([]string{"name", "rbac", "deployment", "service", "pods", "license"}, ran); diff != "" {
		t.Errorf("steps that ran (-want +got):\n%s", diff)
	}
	wantSkipped := map[string]string{"audit": "rbac", "report": "audit", "access": "service"}
	if diff := cmp.Diff(wantSkipped, outcome.Skipped); diff != "" {
		t.Errorf("skipped steps (-want +got):\n%s", diff)
	}
	if outcome.RequeueAfter != 15*time.Second {
		t.Errorf("RequeueAfter = %v, want the shortest wait", outcome.RequeueAfter)
	}
	if !errors.Is(outcome.Err, broken) || strings.Contains(outcome.Err.Error(), "never") {
		t.Errorf("Err = %v, want only the error that is to be tried again", outcome.Err)
	}
	for _, name := range []string{"rbac", "audit", "license"} {
		if outcome.Succeeded(name) {
			t.Errorf("step %q counts as succeeded", name)
		}
	}
	if !slices.Contains(ran, "deployment") || !outcome.Succeeded("deployment") {
		t.Error("the deployment was held up by the failure of another step")
	}
}

func TestSoonerIgnoresNoWait(t *testing.T) {
	for _, c := range []struct{ a, b, want time.Duration }{
		{0, 0, 0}, {0, 5, 5}, {5, 0, 5}, {5, 3, 3}, {3, 5, 3},
	} {
		if got := Sooner(c.a, c.b); got != c.want {
			t.Errorf("Sooner(%d, %d) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
