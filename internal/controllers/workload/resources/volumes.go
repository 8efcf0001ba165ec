package resources

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const certificateDirectory = "/etc/ssl/certs"

// volumes returns the volumes of the pod and their mounts in the container: those of spec.tls, then
// of spec.certs, then spec.volumes and spec.volumeMounts.
func volumes(w Workload) ([]corev1.Volume, []corev1.VolumeMount) {
	var all []corev1.Volume
	var mounts []corev1.VolumeMount
	for _, secret := range tlsSecrets(w) {
		name := volumeName("tls", secret)
		all = append(all, secretVolume(name, secret))
		mounts = append(mounts, corev1.VolumeMount{Name: name, MountPath: tlsMountPath(secret), ReadOnly: true})
	}
	certVolumes, certMounts := certificates(w)
	all = append(append(all, certVolumes...), w.Spec.Volumes...)
	mounts = append(append(mounts, certMounts...), w.Spec.VolumeMounts...)
	return all, mounts
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
