package resources

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// probe returns a probe of /healthz over plain HTTP, also if Coder serves TLS in addition. It
// returns nil if the probe is disabled.
func probe(spec coderv1alpha1.ProbeSpec, enabledByDefault bool) *corev1.Probe {
	if !ptr.Deref(spec.Enabled, enabledByDefault) {
		return nil
	}
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: "/healthz", Port: intstr.FromString(portHTTP), Scheme: corev1.URISchemeHTTP,
		}},
		InitialDelaySeconds: spec.InitialDelaySeconds,
		PeriodSeconds:       ptr.Deref(spec.PeriodSeconds, 10),
		TimeoutSeconds:      ptr.Deref(spec.TimeoutSeconds, 1),
		SuccessThreshold:    ptr.Deref(spec.SuccessThreshold, 1),
		FailureThreshold:    ptr.Deref(spec.FailureThreshold, 3),
	}
}
