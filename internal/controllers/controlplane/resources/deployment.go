package resources

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// ContainerName is the name of coderd's container in its pods.
const ContainerName = "coder"

const (
	// defaultImage stands in where the schema's default was not applied.
	defaultImage = "ghcr.io/coder/coder:v2.30.0"
	// terminationGracePeriod lets coderd end the connections to workspaces.
	terminationGracePeriod = 60
	// containerUser is the user and group of Coder's image.
	containerUser = 1000
)

// Deployment runs coderd.
func Deployment(cp *coderv1alpha1.CoderControlPlane, in Inputs) *appsv1.Deployment {
	container := coderContainer(cp, in)
	container.Args = append([]string{fmt.Sprintf("--http-address=0.0.0.0:%d", containerHTTPPort)}, cp.Spec.ExtraArgs...)
	container.Ports = containerPorts(cp)
	container.ReadinessProbe = probe(cp.Spec.ReadinessProbe, true)
	container.LivenessProbe = probe(cp.Spec.LivenessProbe, false)

	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{
			Name: cp.Name, Namespace: cp.Namespace, Labels: Labels(cp),
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(Replicas(cp)),
			Selector: &metav1.LabelSelector{MatchLabels: Labels(cp)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: Labels(cp)},
				Spec:       podSpec(cp, container),
			},
		},
	}
}

// Replicas is the number of pods that the spec asks for.
func Replicas(cp *coderv1alpha1.CoderControlPlane) int32 {
	return ptr.Deref(cp.Spec.Replicas, 1)
}

// Image is the image of coderd.
func Image(cp *coderv1alpha1.CoderControlPlane) string {
	if cp.Spec.Image == "" {
		return defaultImage
	}
	return cp.Spec.Image
}

// podSpec is a pod with one container and all that the spec says about pods.
func podSpec(cp *coderv1alpha1.CoderControlPlane, container corev1.Container) corev1.PodSpec {
	podVolumes, mounts := volumes(cp)
	container.VolumeMounts = mounts
	return corev1.PodSpec{
		ServiceAccountName:            ServiceAccountName(cp),
		ImagePullSecrets:              cp.Spec.ImagePullSecrets,
		SecurityContext:               cp.Spec.PodSecurityContext,
		TerminationGracePeriodSeconds: ptr.To[int64](terminationGracePeriod),
		NodeSelector:                  cp.Spec.NodeSelector,
		Tolerations:                   cp.Spec.Tolerations,
		Affinity:                      cp.Spec.Affinity,
		TopologySpreadConstraints:     cp.Spec.TopologySpreadConstraints,
		Volumes:                       podVolumes,
		Containers:                    []corev1.Container{container},
	}
}

// coderContainer is what coderd and the admin Job have in common. The last
// lines of its log become the pod's termination message, from which a condition
// tells why Coder does not start.
func coderContainer(cp *coderv1alpha1.CoderControlPlane, in Inputs) corev1.Container {
	container := corev1.Container{
		Name:                     ContainerName,
		Image:                    Image(cp),
		ImagePullPolicy:          cp.Spec.ImagePullPolicy,
		Env:                      environment(cp, in),
		EnvFrom:                  cp.Spec.EnvFrom,
		SecurityContext:          securityContext(cp),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	if cp.Spec.Resources != nil {
		container.Resources = *cp.Spec.Resources
	}
	return container
}

func containerPorts(cp *coderv1alpha1.CoderControlPlane) []corev1.ContainerPort {
	ports := []corev1.ContainerPort{{Name: portHTTP, ContainerPort: containerHTTPPort, Protocol: corev1.ProtocolTCP}}
	if TLSEnabled(cp) {
		ports = append(ports, corev1.ContainerPort{
			Name: portHTTPS, ContainerPort: containerHTTPSPort, Protocol: corev1.ProtocolTCP,
		})
	}
	return ports
}

// securityContext is that of the spec, or that of Coder's own chart. The root
// file system stays writable: coderd keeps Terraform and its working files
// under its home directory.
func securityContext(cp *coderv1alpha1.CoderControlPlane) *corev1.SecurityContext {
	if cp.Spec.SecurityContext != nil {
		return cp.Spec.SecurityContext
	}
	return &corev1.SecurityContext{
		RunAsNonRoot:             ptr.To(true),
		RunAsUser:                ptr.To[int64](containerUser),
		RunAsGroup:               ptr.To[int64](containerUser),
		AllowPrivilegeEscalation: ptr.To(false),
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}
