package resources

import (
	"maps"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// adminJobPodName is the value of the name label on the pods of the admin Job.
// It differs from that of coderd's pods, so that the Service never sends
// requests to them.
const adminJobPodName = coderv1alpha1.ControlPlaneName + "-admin"

// Labels are on every child, and are the selector of the Deployment and of the
// Service.
func Labels(cp *coderv1alpha1.CoderControlPlane) map[string]string {
	return coderv1alpha1.ControlPlaneLabels(cp.Name)
}

// OwnerLabels name the control plane on objects that may live in another
// namespace, where an owner reference cannot.
func OwnerLabels(cp *coderv1alpha1.CoderControlPlane) map[string]string {
	return map[string]string{
		coderv1alpha1.LabelControlPlane:          cp.Name,
		coderv1alpha1.LabelControlPlaneNamespace: cp.Namespace,
	}
}

// OwnerAnnotations say which incarnation of the control plane made an object in
// another namespace.
func OwnerAnnotations(cp *coderv1alpha1.CoderControlPlane) map[string]string {
	return map[string]string{coderv1alpha1.AnnotationOwnerUID: string(cp.UID)}
}

func merged(sets ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, set := range sets {
		maps.Copy(all, set)
	}
	return all
}
