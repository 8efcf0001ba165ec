package v1alpha1

import "k8s.io/apimachinery/pkg/labels"

// ControlPlaneLabels returns the labels of every object that belongs to a control plane.
func ControlPlaneLabels(name string) map[string]string {
	return map[string]string{LabelName: ControlPlaneName, LabelInstance: name, LabelManagedBy: ManagedBy}
}

// PodLabels returns the labels that select the pods of the control plane. They come from the
// status, because a Deployment that was taken over keeps its own labels.
func (cp *CoderControlPlane) PodLabels() map[string]string {
	chosen, err := labels.ConvertSelectorToLabelsMap(cp.Status.Selector)
	if err != nil || len(chosen) == 0 {
		return ControlPlaneLabels(cp.Name)
	}
	return chosen
}
