package framework

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// TestBudgetThatBlocksDrains checks that a PodDisruptionBudget that never allows an eviction is
// reported, and that it does not affect Ready.
func TestBudgetThatBlocksDrains(t *testing.T) {
	number := func(n int) *intstr.IntOrString { return ptr.To(intstr.FromInt(n)) }
	percent := func(p string) *intstr.IntOrString { return ptr.To(intstr.FromString(p)) }
	for name, c := range map[string]struct {
		replicas int32
		budget   *coderv1alpha1.PodDisruptionBudgetSpec
		says     string
	}{
		"none":                            {1, nil, ""},
		"one of one may be missing":       {1, &coderv1alpha1.PodDisruptionBudgetSpec{MaxUnavailable: number(1)}, ""},
		"none of one may be missing":      {1, &coderv1alpha1.PodDisruptionBudgetSpec{MinAvailable: number(1)}, "minAvailable is 1 and the number of pods is 1,"},
		"one of two may be missing":       {2, &coderv1alpha1.PodDisruptionBudgetSpec{MinAvailable: number(1)}, ""},
		"none of two may be missing":      {2, &coderv1alpha1.PodDisruptionBudgetSpec{MaxUnavailable: number(0)}, "maxUnavailable is 0 and the number of pods is 2,"},
		"half of one is rounded up":       {1, &coderv1alpha1.PodDisruptionBudgetSpec{MinAvailable: percent("50%")}, "minAvailable is 50%"},
		"a tenth of three is rounded up":  {3, &coderv1alpha1.PodDisruptionBudgetSpec{MaxUnavailable: percent("10%")}, ""},
		"all of three must be available":  {3, &coderv1alpha1.PodDisruptionBudgetSpec{MinAvailable: percent("100%")}, "minAvailable is 100% and the number of pods is 3,"},
		"no pods":                         {0, &coderv1alpha1.PodDisruptionBudgetSpec{MaxUnavailable: number(0)}, ""},
		"more than there are must remain": {1, &coderv1alpha1.PodDisruptionBudgetSpec{MinAvailable: number(2)}, "minAvailable is 2"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, newControlPlane(func(cp *coderv1alpha1.CoderControlPlane) {
				cp.Spec.Replicas, cp.Spec.PodDisruptionBudget = &c.replicas, c.budget
			}))
			f.Settle()
			f.PodsReady(c.replicas)
			f.Settle()
			if !meta.IsStatusConditionTrue(f.Object().Status.Conditions, coderv1alpha1.ConditionReady) {
				t.Errorf("it is not Ready: %+v", f.Object().Status.Conditions)
			}
			if c.says == "" {
				f.MustNotHave(coderv1alpha1.ConditionEvictable)
				return
			}
			got := f.MustHave(coderv1alpha1.ConditionEvictable, metav1.ConditionFalse, coderv1alpha1.ReasonBudgetBlocksDrain)
			if !strings.Contains(got.Message, c.says) {
				t.Errorf("the message is %q, want one with %q", got.Message, c.says)
			}
		})
	}
}
