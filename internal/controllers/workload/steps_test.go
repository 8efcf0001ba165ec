package workload

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure"
)

func TestRunBlocksOnlyWhatNeedsTheFailedStep(t *testing.T) {
	broken := errors.New("broken")
	var ran []string
	step := func(name string, err error, needs ...string) Step {
		return NewStep(name, &ran, func(_ context.Context, log *[]string) error {
			*log = append(*log, name)
			return err
		}, needs...)
	}

	p := &Pass{}
	p.Run(t.Context(), []Step{
		step("name", nil),
		step("rbac", broken, "name"),
		step("deployment", nil, "name"),
		step("audit", nil, "rbac"),
		step("report", nil, "audit"),
		step("service", ensure.Waits("", 30*time.Second, "soon")),
		step("access", nil, "deployment", "service"),
		step("pods", ensure.Waits("", 15*time.Second, "sooner")),
		step("license", ensure.Fails("NotImplemented", 0, "never")),
	})
	outcome := p.Outcome

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
