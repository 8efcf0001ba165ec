package resources

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// containerUser is the user and group of Coder's image.
const containerUser = 1000

// securityContext is that of the spec over the defaults. Running pods of an earlier
// version keep their capabilities, and those that Helm made get no default that they lack.
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

// runningContainer is Coder's container in the Deployment as it is, or nil if there is
// none or the image changes. Pods that run are not replaced because a default of the
// operator is new: they get it with the next image.
func runningContainer(w Workload) *corev1.Container {
	template := w.Live
	if template == nil && w.Adopted != nil {
		template = w.Adopted.Template
	}
	if template == nil {
		return nil
	}
	c := containerNamed(template.Spec.Containers, PodContainer(w))
	if c == nil || c.Image != w.Image {
		return nil
	}
	return c
}

// WithSecurityDefaults is a security context with every default that it lacks. It is
// for pods that are new whatever the Deployment is.
func WithSecurityDefaults(w Workload, given *corev1.SecurityContext) *corev1.SecurityContext {
	return overSecurityContext(given, defaultSecurityContext(w))
}

// defaultSecurityContext is that of Coder's own chart without capabilities, which
// is what Pod Security "restricted" requires. The root file system stays writable:
// Coder keeps Terraform and its working files under its home directory.
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

// overSecurityContext is given over defaults, field by field, or nil if nothing is set.
// A default that contradicts what is given is left out.
func overSecurityContext(given, defaults *corev1.SecurityContext) *corev1.SecurityContext {
	result := given.DeepCopy()
	if result == nil {
		result = &corev1.SecurityContext{}
	}
	if result.RunAsNonRoot == nil && ptr.Deref(result.RunAsUser, containerUser) != 0 {
		result.RunAsNonRoot = defaults.RunAsNonRoot
	}
	if result.AllowPrivilegeEscalation == nil && !escalates(result) {
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

// escalates reports whether Kubernetes refuses allowPrivilegeEscalation: false.
func escalates(sc *corev1.SecurityContext) bool {
	if ptr.Deref(sc.Privileged, false) {
		return true
	}
	if sc.Capabilities == nil {
		return false
	}
	for _, capability := range sc.Capabilities.Add {
		if capability == "CAP_SYS_ADMIN" {
			return true
		}
	}
	return false
}
