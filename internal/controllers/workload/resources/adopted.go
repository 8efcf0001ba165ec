package resources

import (
	"cmp"
	"maps"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// Adopted describes a Deployment that somebody else created and handed over. Its selector is
// immutable. The name of the container and the order of lists have no effect on the pods, so they
// are kept: a change of them would only replace the pods.
type Adopted struct {
	// Selector selects the pods.
	Selector map[string]string
	// Container is the name of Coder's container.
	Container string
	// HTTPPort is the container port that serves HTTP, or 0.
	HTTPPort int32
	// Template is the current pod template.
	Template *corev1.PodTemplateSpec
	// Checksum is the checksum of the Secrets and ConfigMaps that the pods refer to, if the pod
	// template does not have it as an annotation. Empty means that it does.
	Checksum string
}

// AdoptedFrom returns the Adopted of the workload's Deployment, or nil if the Deployment has the
// selector that the operator uses.
func AdoptedFrom(w Workload, d *appsv1.Deployment) *Adopted {
	if d.Spec.Selector == nil || maps.Equal(d.Spec.Selector.MatchLabels, w.Labels) {
		return nil
	}
	adopted := &Adopted{
		Selector: maps.Clone(d.Spec.Selector.MatchLabels), Container: w.Container, Template: d.Spec.Template.DeepCopy(),
	}
	c := containerNamed(adopted.Template.Spec.Containers, w.Container)
	if c == nil {
		// All three of Coder's own charts use this container name.
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

// PodLabels returns the labels that select the pods.
func PodLabels(w Workload) map[string]string {
	if w.Adopted != nil {
		return merged(w.Adopted.Selector)
	}
	return merged(w.Labels)
}

// PodContainer returns the name of Coder's container in the pods.
func PodContainer(w Workload) string {
	if w.Adopted != nil {
		return w.Adopted.Container
	}
	return w.Container
}

// RememberChecksum moves the checksum from the pod template of an adopted Deployment to an
// annotation of the Deployment, so that adoption does not roll the pods. The checksum moves to the
// pod template when it differs from that annotation.
func RememberChecksum(w *Workload, d *appsv1.Deployment) {
	if w.Adopted == nil || w.Checksum == "" {
		return
	}
	if _, found := d.Spec.Template.Annotations[coderv1alpha1.AnnotationConfigChecksum]; found {
		return
	}
	remembered := d.Annotations[coderv1alpha1.AnnotationAdoptedChecksum]
	if remembered == "" || remembered == w.Checksum {
		w.Adopted.Checksum, w.Checksum = w.Checksum, ""
	}
}

func likeAdopted(w Workload, template *corev1.PodTemplateSpec) {
	if w.Adopted == nil {
		return
	}
	if c := containerNamed(template.Spec.Containers, w.Container); c != nil {
		c.Name = w.Adopted.Container
	}
	inOrder(template, w.Adopted.Template)
}

// inOrder puts the elements of base before those that spec.podTemplate adds. A strategic merge puts
// added elements first. Without this function, an added sidecar would become the default container
// of kubectl logs, and a variable that refers to one of the operator's would come before it.
func inOrder(result, base *corev1.PodTemplateSpec) {
	sortLike(result.Spec.Volumes, base.Spec.Volumes, func(v corev1.Volume) string { return v.Name })
	sortLike(result.Spec.Containers, base.Spec.Containers, func(c corev1.Container) string { return c.Name })
	for i := range base.Spec.Containers {
		ours := &base.Spec.Containers[i]
		c := containerNamed(result.Spec.Containers, ours.Name)
		if c == nil {
			continue
		}
		sortLike(c.Env, ours.Env, func(e corev1.EnvVar) string { return e.Name })
		sortLike(c.Ports, ours.Ports, func(p corev1.ContainerPort) int32 { return p.ContainerPort })
		sortLike(c.VolumeMounts, ours.VolumeMounts, func(m corev1.VolumeMount) string { return m.MountPath })
	}
}

// sortLike puts the elements that model contains first, in the order of model. The other elements
// follow in their previous order.
func sortLike[E any, K comparable](elements, model []E, key func(E) K) {
	rank := func(e E) int {
		at := slices.IndexFunc(model, func(m E) bool { return key(m) == key(e) })
		if at < 0 {
			return math.MaxInt
		}
		return at
	}
	slices.SortStableFunc(elements, func(a, b E) int { return cmp.Compare(rank(a), rank(b)) })
}
