package resources

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

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
	slices.SortStableFunc(elements, func(a, b E) int {
		switch ra, rb := rank(a), rank(b); {
		case ra < rb:
			return -1
		case ra > rb:
			return 1
		}
		return 0
	})
}
