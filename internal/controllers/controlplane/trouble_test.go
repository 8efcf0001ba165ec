package controlplane

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// mustNotSpin checks that a pass requests the next one after a second at the earliest.
func mustNotSpin(t testing.TB, result ctrl.Result) {
	t.Helper()
	if result.RequeueAfter > 0 && result.RequeueAfter < time.Second {
		t.Errorf("looks again after %v", result.RequeueAfter)
	}
}

// trouble describes how one call fails.
type trouble struct {
	err error
	// reads makes reads fail. lost makes a write succeed and loses its response.
	reads, lost bool
	in          []string
}

func troubles() map[string]trouble {
	resource := schema.GroupResource{Resource: "things"}
	away := apierrors.NewServiceUnavailable("the API server starts")
	return map[string]trouble{
		"a conflict":             {err: apierrors.NewConflict(resource, "thing", errors.New("it was changed")), in: []string{"change everything"}},
		"no answer to a write":   {err: away, lost: true, in: []string{"create everything", "delete everything"}},
		"no API server, writing": {err: away, in: []string{"create", "access disabled", "token Secret deleted"}},
		"no API server, reading": {err: away, reads: true, in: []string{"create", "delete"}},
	}
}

// TestTroubleEverywhere makes each single call fail once, in the same process. The result must be
// that of an undisturbed run.
func TestTroubleEverywhere(t *testing.T) {
	t.Parallel()
	all := scenarios()
	for what, trouble := range troubles() {
		for _, name := range trouble.in {
			t.Run(what+"/"+name, func(t *testing.T) {
				t.Parallel()
				s := all[name]
				undisturbed := s.play(t, 0)
				want := undisturbed.picture(undisturbed.licenses)
				kubetest.EachStep(t, 0, func(at int) bool {
					f := s.stage(t)
					fault := f.Fault
					if trouble.reads {
						fault = f.reads
					}
					fault.SetError(at, trouble.lost, trouble.err)
					f.live()
					struck := fault.Struck()
					fault.Set(0, false)
					if !f.Gone() {
						f.live()
					}
					if diff := cmp.Diff(want, f.picture(f.licenses)); diff != "" {
						t.Fatalf("trouble at call %d (-undisturbed +troubled):\n%s", at, diff)
					}
					return struck
				})
			})
		}
	}
}

// answers returns the faults that Coder, or a proxy in front of it, may respond with.
func answers() map[string]coderdtest.Fault {
	return map[string]coderdtest.Fault{
		"401":     {Status: http.StatusUnauthorized},
		"403":     {Status: http.StatusForbidden},
		"404":     {Status: http.StatusNotFound},
		"409":     {Status: http.StatusConflict},
		"429":     {Status: http.StatusTooManyRequests, RetryAfter: 30 * time.Second},
		"500":     {Status: http.StatusInternalServerError},
		"garbage": {Status: http.StatusOK, HTML: true},
		"502":     {Status: http.StatusBadGateway, HTML: true},
		"nothing": {DropConnection: true},
	}
}

// TestAnyAnswerOfCoder makes Coder answer all requests, or all except the one for its version, with
// a fault, during setup and at rest.
func TestAnyAnswerOfCoder(t *testing.T) {
	kubetest.SkipWithRace(t)
	t.Parallel()
	for when, s := range map[string]scenario{
		"set up": {fresh: true, spec: withLicense, act: func(*licensedFixture) {}},
		"at rest": {spec: withLicense, act: func(f *licensedFixture) {
			f.license("second")
			f.Forward(framework.RestInterval)
		}},
	} {
		undisturbed := s.play(t, 0)
		want := undisturbed.picture(undisturbed.licenses)
		all := answers()
		for _, name := range slices.Sorted(maps.Keys(all)) {
			for _, path := range []string{"", "/api/v2/users", "/api/v2/licenses", "/api/v2/entitlements"} {
				t.Run(when+"/"+name+path, func(t *testing.T) {
					t.Parallel()
					answer := all[name]
					answer.PathPrefix = path
					badAnswer(t, s, answer, want)
				})
			}
		}
	}
}

func badAnswer(t *testing.T, s scenario, answer coderdtest.Fault, want string) {
	t.Helper()
	f := s.stage(t)
	f.coder.Fail(answer)
	f.coder.ResetRequests()
	for range 4 {
		result, err := f.Try()
		if err != nil {
			t.Errorf("a bad answer of Coder is an error of the pass: %v", err)
		}
		mustNotSpin(t, result)
		f.world()
	}
	f.TakeWrites()
	f.Reconcile()
	if writes := f.TakeWrites(); len(writes) > 0 {
		t.Errorf("in the fifth pass it still writes %q", writes)
	}
	status := f.Object().Status
	for _, c := range status.Conditions {
		if c.Reason == "" || c.Message == "" {
			t.Errorf("condition %+v says nothing", c)
		}
	}
	if answer.PathPrefix == "" && !meta.IsStatusConditionTrue(status.Conditions, coderv1alpha1.ConditionReady) {
		f.MustHave(coderv1alpha1.ConditionCoderReachable, metav1.ConditionFalse, coderv1alpha1.ReasonUnreachable)
	}
	if n := f.coder.Writes(); n > 12 {
		t.Errorf("%d writes to Coder in five passes: %v", n, f.coder.Requests())
	}
	f.mustNotLeak()
	f.coder.ClearFaults()
	f.Forward(framework.RestInterval)
	f.live()
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
	if diff := cmp.Diff(want, f.picture(f.licenses)); diff != "" {
		t.Errorf("afterwards (-undisturbed +troubled):\n%s", diff)
	}
}
