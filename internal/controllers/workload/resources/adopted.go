package resources

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// Adopted is what stays of a Deployment that somebody else made and handed over.
// The selector cannot change, and what in the pods has no meaning of its own, the
// name of the container and the order of lists, stays so that pods are not replaced
// for it.
type Adopted struct {
	// Selector selects the pods.
	Selector map[string]string
	// Container is the name of Coder's container.
	Container string
	// HTTPPort is the port of the container on which HTTP is served, or 0.
	HTTPPort int32
	// Template is the pods as they are.
	Template *corev1.PodTemplateSpec
	// Checksum is that of what the pods refer to, where they do not tell it. Empty,
	// they do.
	Checksum string
}

// AdoptedFrom is what stays of a Deployment that is the workload's, or nil where it
// is as the operator makes it.
func AdoptedFrom(w Workload, d *appsv1.Deployment) *Adopted {
	if d.Spec.Selector == nil || maps.Equal(d.Spec.Selector.MatchLabels, w.Labels) {
		return nil
	}
	adopted := &Adopted{
		Selector: maps.Clone(d.Spec.Selector.MatchLabels), Container: w.Container, Template: d.Spec.Template.DeepCopy(),
	}
	c := containerNamed(adopted.Template.Spec.Containers, w.Container)
	if c == nil {
		// Coder's own charts give the container this name in all three.
		if c = containerNamed(adopted.Template.Spec.Containers, chartContainer); c != nil {
			adopted.Container = chartContainer
		}
	}
	if c != nil {
		for _, port := range c.Ports {
			if port.Name == portHTTP {
				adopted.HTTPPort = port.ContainerPort
			}
		}
	}
	return adopted
}

// chartContainer is the name of the container in Coder's own charts.
const chartContainer = "coder"

// PodLabels select the pods.
func PodLabels(w Workload) map[string]string {
	if w.Adopted != nil {
		return merged(w.Adopted.Selector)
	}
	return merged(w.Labels)
}

// PodContainer is the name of Coder's container in the pods.
func PodContainer(w Workload) string {
	if w.Adopted != nil {
		return w.Adopted.Container
	}
	return w.Container
}

// RememberChecksum decides whether the pods of a Deployment that was handed over
// tell the checksum. They do not until it differs from what the Deployment
// remembers.
func RememberChecksum(w *Workload, d *appsv1.Deployment) {
	if w.Adopted == nil || w.Checksum == "" {
		return
	}
	if _, told := d.Spec.Template.Annotations[coderv1alpha1.AnnotationConfigChecksum]; told {
		return
	}
	remembered := d.Annotations[coderv1alpha1.AnnotationAdoptedChecksum]
	if remembered == "" || remembered == w.Checksum {
		w.Adopted.Checksum, w.Checksum = w.Checksum, ""
	}
}

// likeAdopted gives pods the container's name and the order of those that were
// handed over.
func likeAdopted(w Workload, template *corev1.PodTemplateSpec) {
	if w.Adopted == nil {
		return
	}
	if c := containerNamed(template.Spec.Containers, w.Container); c != nil {
		c.Name = w.Adopted.Container
	}
	inOrder(template, w.Adopted.Template)
}
