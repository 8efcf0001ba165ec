package resources

import (
	"cmp"
	"maps"
	"slices"
	"strings"

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
	if w.Adopted != nil {
		if c := containerNamed(template.Spec.Containers, w.Container); c != nil {
			c.Name = w.Adopted.Container
		}
		inOrder(&template, w.Adopted.Template)
	}
	if c := containerNamed(template.Spec.Containers, PodContainer(w)); c != nil && w.HeldImage != "" {
		c.Image = w.HeldImage
	}
	return template, nil
}

// MergeablePodTemplate returns PodTemplate, without spec.podTemplate if that cannot be merged. The step of the Deployment
// reports that error.
func MergeablePodTemplate(w Workload) corev1.PodTemplateSpec {
	if template, err := PodTemplate(w); err == nil {
		return template
	}
	return PlainPodTemplate(w)
}

// ImageOf returns the image of Coder's container in a pod template, or an empty string.
func ImageOf(w Workload, template *corev1.PodTemplateSpec) string {
	if c := containerNamed(template.Spec.Containers, PodContainer(w)); c != nil {
		return c.Image
	}
	return ""
}

// WantedImage returns the image that the spec asks for. The one in spec.podTemplate wins.
func WantedImage(w Workload) string {
	if c := givenContainer(w); c != nil && c.Image != "" {
		return c.Image
	}
	return w.Image
}

// givenContainer returns the entry of spec.podTemplate for Coder's container, or nil.
func givenContainer(w Workload) *corev1.Container {
	if w.Spec.PodTemplate == nil {
		return nil
	}
	return containerNamed(w.Spec.PodTemplate.Spec.Containers, w.Container)
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
	annotations := ownAnnotations(w)
	if w.Component != "" {
		annotations[coderv1alpha1.LabelComponent] = w.Component
	}
	maps.DeleteFunc(annotations, func(_, value string) bool { return value == "" })
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: PodLabels(w), Annotations: annotations},
		// The copy shares no memory with the spec.
		Spec: *spec.DeepCopy(),
	}
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

// containerUser is the id of the user and the group in Coder's image.
const containerUser = 1000

// securityContext returns the security context of the spec, completed with defaults. Pods of an
// earlier version of the operator keep their capabilities, and pods from Helm get no new default,
// until the image changes.
func securityContext(w Workload) *corev1.SecurityContext {
	defaults := defaultSecurityContext(w)
	if running := runningContainer(w); running != nil {
		had := ptr.Deref(running.SecurityContext, corev1.SecurityContext{})
		if had.Capabilities == nil || len(had.Capabilities.Drop) == 0 {
			defaults.Capabilities = nil
		}
		if w.Adopted != nil {
			onlyIfLive(defaults, had)
		}
	}
	return overSecurityContext(w.Spec.SecurityContext, defaults)
}

// runningContainer returns Coder's container in the current Deployment, or nil if there is no
// Deployment or its image changes. A new default of the operator does not replace running pods:
// they get it with the next image. An admission webhook may have added the digest to the image.
func runningContainer(w Workload) *corev1.Container {
	template := w.Live
	if template == nil && w.Adopted != nil {
		template = w.Adopted.Template
	}
	if template == nil {
		return nil
	}
	c, image := containerNamed(template.Spec.Containers, PodContainer(w)), cmp.Or(w.HeldImage, WantedImage(w))
	if c == nil || c.Image != image && !strings.HasPrefix(c.Image, image+"@") {
		return nil
	}
	return c
}

// defaultSecurityContext returns the security context of Coder's own chart without capabilities, as
// Pod Security "restricted" requires. The root file system stays writable, because Coder stores
// Terraform and its working files in its home directory.
func defaultSecurityContext(w Workload) *corev1.SecurityContext {
	defaults := &corev1.SecurityContext{
		RunAsNonRoot:             ptr.To(true),
		AllowPrivilegeEscalation: ptr.To(false),
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	if !w.Spec.PlatformAssignedUser {
		defaults.RunAsUser, defaults.RunAsGroup = ptr.To[int64](containerUser), ptr.To[int64](containerUser)
	}
	return defaults
}

// onlyIfLive removes the defaults that a live container does not have.
func onlyIfLive(defaults *corev1.SecurityContext, live corev1.SecurityContext) {
	if live.RunAsNonRoot == nil {
		defaults.RunAsNonRoot = nil
	}
	if live.AllowPrivilegeEscalation == nil {
		defaults.AllowPrivilegeEscalation = nil
	}
	if live.SeccompProfile == nil {
		defaults.SeccompProfile = nil
	}
	if live.RunAsUser == nil {
		defaults.RunAsUser = nil
	}
	if live.RunAsGroup == nil {
		defaults.RunAsGroup = nil
	}
}

// overSecurityContext returns given, completed with defaults field by field, or nil if no field is
// set. It skips a default that contradicts a given field.
func overSecurityContext(given, defaults *corev1.SecurityContext) *corev1.SecurityContext {
	result := given.DeepCopy()
	if result == nil {
		result = &corev1.SecurityContext{}
	}
	if result.RunAsNonRoot == nil && ptr.Deref(result.RunAsUser, containerUser) != 0 {
		result.RunAsNonRoot = defaults.RunAsNonRoot
	}
	// Kubernetes rejects allowPrivilegeEscalation: false for these.
	escalates := ptr.Deref(result.Privileged, false) ||
		result.Capabilities != nil && slices.Contains(result.Capabilities.Add, "CAP_SYS_ADMIN")
	if result.AllowPrivilegeEscalation == nil && !escalates {
		result.AllowPrivilegeEscalation = defaults.AllowPrivilegeEscalation
	}
	if result.SeccompProfile == nil {
		result.SeccompProfile = defaults.SeccompProfile
	}
	if result.Capabilities == nil {
		result.Capabilities = defaults.Capabilities
	} else if len(result.Capabilities.Drop) == 0 && defaults.Capabilities != nil {
		result.Capabilities.Drop = defaults.Capabilities.Drop
	}
	if result.RunAsUser == nil {
		result.RunAsUser = defaults.RunAsUser
	}
	if result.RunAsGroup == nil {
		result.RunAsGroup = defaults.RunAsGroup
	}
	if *result == (corev1.SecurityContext{}) {
		return nil
	}
	return result
}
