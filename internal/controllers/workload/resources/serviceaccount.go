package resources

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServiceAccount returns the ServiceAccount of the pods, or nil if the spec uses an existing one.
func ServiceAccount(w Workload) *corev1.ServiceAccount {
	spec := w.Spec.ServiceAccount
	if spec.DisableCreate {
		return nil
	}
	return &corev1.ServiceAccount{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "ServiceAccount"},
		ObjectMeta: meta(w, w.ServiceAccountName, spec.Labels, spec.Annotations),
	}
}
