package resources

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
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

// certificates mounts each key of spec.certs as a file in the directory in which the image looks
// for certificate authorities. A Secret that is named more than once becomes one volume, and its
// file names contain the key.
func certificates(w Workload) ([]corev1.Volume, []corev1.VolumeMount) {
	selectors := certSelectors(w)
	uses := map[string]int{}
	for _, s := range selectors {
		uses[s.Name]++
	}
	var all []corev1.Volume
	var mounts []corev1.VolumeMount
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
	return all, mounts
}

// certSelectors returns the selectors of spec.certs without duplicates.
func certSelectors(w Workload) []coderv1alpha1.CertSecretSelector {
	var all []coderv1alpha1.CertSecretSelector
	for _, s := range w.Spec.Certs.Secrets {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}
