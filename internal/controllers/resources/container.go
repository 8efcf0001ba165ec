package resources

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// container returns Coder's container. The last lines of its log become the termination message,
// from which a condition reports why Coder does not start.
func container(w Workload, mounts []corev1.VolumeMount) corev1.Container {
	// If the spec sets the entry point, that is coder itself, so the arguments begin with the subcommand unless the spec
	// sets all arguments too.
	command, args := w.Command, w.Args
	if len(w.Spec.Command) > 0 {
		command, args = w.Spec.Command, slices.Concat(w.Subcommand, w.Args)
	}
	if len(w.Spec.Args) > 0 {
		args = w.Spec.Args
	}
	// These are the resources of Coder's own chart.
	usual := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi")}
	c := corev1.Container{
		Name:                     w.Container,
		Image:                    w.Image,
		ImagePullPolicy:          w.Spec.ImagePullPolicy,
		Command:                  command,
		Args:                     slices.Concat(args, w.Spec.ExtraArgs),
		Env:                      environment(w),
		EnvFrom:                  w.Spec.EnvFrom,
		Ports:                    containerPorts(w),
		Resources:                ptr.Deref(w.Spec.Resources, corev1.ResourceRequirements{Requests: usual, Limits: usual}),
		SecurityContext:          securityContext(w),
		VolumeMounts:             mounts,
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	if w.Serving != nil {
		c.ReadinessProbe = probe(w.Serving.Spec.ReadinessProbe, true)
		c.LivenessProbe = probe(w.Serving.Spec.LivenessProbe, false)
		c.StartupProbe = startupProbe(w, c.LivenessProbe)
	}
	return c
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
	if value, given := givenVariable(w, EnvPrometheusEnable); w.Spec.Metrics.Enabled || given && value == "true" {
		add(portMetrics, metricsPort)
	}
	return ports
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

// startupProbe returns a probe that gives a server half an hour before its liveness probe begins. It
// returns nil if there is no liveness probe, if spec.podTemplate contains a startup probe, or if the
// running pods have a liveness probe without it.
func startupProbe(w Workload, liveness *corev1.Probe) *corev1.Probe {
	given := givenContainer(w)
	if liveness == nil || !w.Serving.Migrates || given != nil && given.StartupProbe != nil {
		return nil
	}
	if running := runningContainer(w); running != nil && running.LivenessProbe != nil && running.StartupProbe == nil {
		return nil
	}
	const period, minutes = 10, 30
	return &corev1.Probe{
		ProbeHandler:     *liveness.ProbeHandler.DeepCopy(),
		PeriodSeconds:    period,
		TimeoutSeconds:   liveness.TimeoutSeconds,
		SuccessThreshold: 1,
		FailureThreshold: minutes * 60 / period,
	}
}

const certificateDirectory = "/etc/ssl/certs"

// volumes returns the volumes of the pod and their mounts in the container: those of spec.tls, then
// of spec.certs, then spec.volumes and spec.volumeMounts. Each key of spec.certs is a file in the
// directory in which the image looks for certificate authorities.
func volumes(w Workload) ([]corev1.Volume, []corev1.VolumeMount) {
	var all []corev1.Volume
	var mounts []corev1.VolumeMount
	for _, secret := range tlsSecrets(w) {
		name := volumeName("tls", secret)
		all = append(all, secretVolume(name, secret))
		mounts = append(mounts, corev1.VolumeMount{Name: name, MountPath: tlsMountPath(secret), ReadOnly: true})
	}
	// A Secret of spec.certs that is named more than once becomes one volume, and its file names contain the key.
	var selectors []coderv1alpha1.CertSecretSelector
	uses := map[string]int{}
	for _, s := range w.Spec.Certs.Secrets {
		if !slices.Contains(selectors, s) {
			selectors = append(selectors, s)
			uses[s.Name]++
		}
	}
	mounted, files := map[string]bool{}, map[string]int{}
	for _, s := range selectors {
		name := volumeName("ca-cert", s.Name)
		if !mounted[s.Name] {
			mounted[s.Name] = true
			all = append(all, secretVolume(name, s.Name))
		}
		file := s.Name
		if uses[s.Name] > 1 {
			file += "-" + s.Key
		}
		file = strings.TrimSuffix(file, ".crt")
		files[file]++
		if n := files[file]; n > 1 {
			file = fmt.Sprintf("%s-%d", file, n)
		}
		mounts = append(mounts, corev1.VolumeMount{
			Name: name, MountPath: certificateDirectory + "/" + file + ".crt", SubPath: s.Key, ReadOnly: true,
		})
	}
	return append(all, w.Spec.Volumes...), append(mounts, w.Spec.VolumeMounts...)
}

// tlsSecrets returns the names of the Secrets of spec.tls without duplicates.
func tlsSecrets(w Workload) []string {
	if w.Serving == nil {
		return nil
	}
	var all []string
	for _, name := range w.Serving.Spec.TLS.SecretNames {
		if name = strings.TrimSpace(name); name != "" && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

func tlsMountPath(secret string) string {
	return certificateDirectory + "/coder/" + secret
}

func secretVolume(name, secret string) corev1.Volume {
	return corev1.Volume{
		Name:         name,
		VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}},
	}
}
