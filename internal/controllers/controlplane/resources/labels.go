package resources

import (
	"maps"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// adminJobPodName is the value of the name label on the pods of the admin Job.
// It differs from that of coderd's pods, so that the Service never sends
// requests to them.
const adminJobPodName = coderv1alpha1.ControlPlaneName + "-admin"

// Labels returns the labels of every child. They are also the selector of the Deployment and of the
// Service.
func Labels(cp *coderv1alpha1.CoderControlPlane) map[string]string {
	return coderv1alpha1.ControlPlaneLabels(cp.Name)
}

// OwnerLabels returns the labels that name the control plane on objects in another namespace, to
// which an owner reference cannot point.
func OwnerLabels(cp *coderv1alpha1.CoderControlPlane) map[string]string {
	return map[string]string{
		coderv1alpha1.LabelControlPlane:          cp.Name,
		coderv1alpha1.LabelControlPlaneNamespace: cp.Namespace,
	}
}

// OwnerAnnotations returns the annotations with the uid of the control plane, for objects in
// another namespace. The uid distinguishes control planes that were created with the same name.
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
