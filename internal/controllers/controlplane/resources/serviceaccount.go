package resources

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// ServiceAccount is the identity of coderd's pods, or nil where the spec uses
// one that exists.
func ServiceAccount(cp *coderv1alpha1.CoderControlPlane) *corev1.ServiceAccount {
	if cp.Spec.ServiceAccount.DisableCreate {
		return nil
	}
	return &corev1.ServiceAccount{
		TypeMeta: metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "ServiceAccount"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        ServiceAccountName(cp),
			Namespace:   cp.Namespace,
			Labels:      merged(Labels(cp), cp.Spec.ServiceAccount.Labels),
			Annotations: cp.Spec.ServiceAccount.Annotations,
		},
	}
}
