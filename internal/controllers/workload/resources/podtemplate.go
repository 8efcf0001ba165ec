package resources

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// PodTemplate returns the pod template of the Deployment: the one that follows from the fields,
// with spec.podTemplate merged over it. It returns a SpecError if the template cannot be merged.
func PodTemplate(w Workload) (corev1.PodTemplateSpec, error) {
	template, err := mergedTemplate(w, PlainPodTemplate(w))
	if err != nil {
		return corev1.PodTemplateSpec{}, err
	}
	likeAdopted(w, &template)
	return template, nil
}

// PlainPodTemplate returns the pod template that follows from the fields, without spec.podTemplate.
func PlainPodTemplate(w Workload) corev1.PodTemplateSpec {
	podVolumes, mounts := volumes(w)
	spec := corev1.PodSpec{
		ServiceAccountName:            w.ServiceAccountName,
		ImagePullSecrets:              w.Spec.ImagePullSecrets,
		SecurityContext:               w.Spec.PodSecurityContext,
		TerminationGracePeriodSeconds: ptr.To(ptr.Deref(w.Spec.TerminationGracePeriodSeconds, w.GracePeriodSeconds)),
		NodeSelector:                  w.Spec.NodeSelector,
		Tolerations:                   w.Spec.Tolerations,
		Affinity:                      affinity(w),
		TopologySpreadConstraints:     w.Spec.TopologySpreadConstraints,
		Volumes:                       podVolumes,
		Containers:                    []corev1.Container{container(w, mounts)},
	}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: PodLabels(w), Annotations: podAnnotations(w)},
		// The copy shares no memory with the spec.
		Spec: *spec.DeepCopy(),
	}
}

func podAnnotations(w Workload) map[string]string {
	all := ownAnnotations(w)
	if w.Component != "" {
		all[coderv1alpha1.LabelComponent] = w.Component
	}
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	return all
}

// ownAnnotations returns the annotations that roll the pods. Those with an empty value must not exist.
func ownAnnotations(w Workload) map[string]string {
	return merged(w.PodAnnotations, map[string]string{coderv1alpha1.AnnotationConfigChecksum: w.Checksum})
}

// affinity returns the affinity of the spec, or the preference of Coder's own chart for different
// nodes. An empty affinity in the spec disables both.
func affinity(w Workload) *corev1.Affinity {
	switch given := w.Spec.Affinity; {
	case given == nil:
	case *given == corev1.Affinity{}:
		return nil
	default:
		return given
	}
	own, pods := map[string]string{}, PodLabels(w)
	for _, key := range []string{coderv1alpha1.LabelName, coderv1alpha1.LabelInstance} {
		if value, ok := pods[key]; ok {
			own[key] = value
		}
	}
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 1,
			PodAffinityTerm: corev1.PodAffinityTerm{
				LabelSelector: &metav1.LabelSelector{MatchLabels: own}, TopologyKey: corev1.LabelHostname,
			},
		}},
	}}
}
