package resources

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// PodDisruptionBudget returns the PodDisruptionBudget of the pods, or nil if the spec does not ask
// for one.
func PodDisruptionBudget(w Workload) *policyv1.PodDisruptionBudget {
	spec := w.Spec.PodDisruptionBudget.DeepCopy()
	if spec == nil {
		return nil
	}
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: policyv1.SchemeGroupVersion.String(), Kind: "PodDisruptionBudget"},
		ObjectMeta: meta(w, w.Name, nil, nil),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: spec.MinAvailable, MaxUnavailable: spec.MaxUnavailable, Selector: ptr.To(selector(w)),
		},
	}
}
