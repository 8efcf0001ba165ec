package resources

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// container returns Coder's container. The last lines of its log become the termination message,
// from which a condition reports why Coder does not start.
func container(w Workload, mounts []corev1.VolumeMount) corev1.Container {
	command, args := commandLine(w)
	c := corev1.Container{
		Name:                     w.Container,
		Image:                    w.Image,
		ImagePullPolicy:          w.Spec.ImagePullPolicy,
		Command:                  command,
		Args:                     args,
		Env:                      environment(w),
		EnvFrom:                  w.Spec.EnvFrom,
		Ports:                    containerPorts(w),
		Resources:                containerResources(w),
		SecurityContext:          securityContext(w),
		VolumeMounts:             mounts,
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	if w.Serving != nil {
		c.ReadinessProbe = probe(w.Serving.Spec.ReadinessProbe, true)
		c.LivenessProbe = probe(w.Serving.Spec.LivenessProbe, false)
	}
	return c
}

// commandLine returns the entry point and its arguments. If the spec sets the entry point, that is
// coder itself, so the arguments begin with the subcommand unless the spec sets all arguments too.
func commandLine(w Workload) (command, args []string) {
	command, args = w.Command, w.Args
	if len(w.Spec.Command) > 0 {
		command, args = w.Spec.Command, slices.Concat(w.Subcommand, w.Args)
	}
	if len(w.Spec.Args) > 0 {
		args = w.Spec.Args
	}
	return slices.Clone(command), slices.Concat(args, w.Spec.ExtraArgs)
}

// containerPorts returns the ports of the container. Services, probes and Prometheus refer to them
// by name.
func containerPorts(w Workload) []corev1.ContainerPort {
	var ports []corev1.ContainerPort
	add := func(name string, port int32) {
		ports = append(ports, corev1.ContainerPort{Name: name, ContainerPort: port, Protocol: corev1.ProtocolTCP})
	}
	if w.Serving != nil {
		add(portHTTP, w.Serving.HTTPPort)
	}
	if TLSEnabled(w) {
		add(portHTTPS, w.Serving.HTTPSPort)
	}
	if metricsServed(w) {
		add(portMetrics, metricsPort)
	}
	return ports
}

// containerResources returns the resources of the spec, or those of Coder's own chart.
func containerResources(w Workload) corev1.ResourceRequirements {
	if w.Spec.Resources != nil {
		return *w.Spec.Resources
	}
	usual := func() corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"),
		}
	}
	return corev1.ResourceRequirements{Requests: usual(), Limits: usual()}
}

func containerNamed(containers []corev1.Container, name string) *corev1.Container {
	for i := range containers {
		if containers[i].Name == name {
			return &containers[i]
		}
	}
	return nil
}

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
