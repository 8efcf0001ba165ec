package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply"
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

func TestSettled(t *testing.T) {
	things := schema.GroupResource{Resource: "things"}
	leaving := apierrors.NewForbidden(things, "coder", errors.New("unable to create new content in namespace team because it is being terminated"))
	leaving.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, c := range map[string]struct {
		err   error
		after time.Duration
	}{
		"a conflict":                         {apierrors.NewConflict(things, "coder", errors.New("changed")), ConflictInterval},
		"an owner that is being deleted":     {apply.ErrOwnerDeleted, ConflictInterval},
		"an object that is being deleted":    {apply.ErrTerminating, terminatingInterval},
		"a namespace that is being deleted":  {leaving, terminatingInterval},
		"a permission that is missing":       {apierrors.NewForbidden(things, "coder", errors.New("no role")), 0},
		"kube-apiserver that does not serve": {apierrors.NewServiceUnavailable("starting"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			stop := ensure.Stopped(Settled(fmt.Errorf("applying: %w", c.err)))
			if (stop != nil) != (c.after > 0) || stop != nil && (stop.After != c.after || stop.Reason != coderv1alpha1.ReasonWaiting) {
				t.Errorf("it ends with %+v", stop)
			}
		})
	}
}
