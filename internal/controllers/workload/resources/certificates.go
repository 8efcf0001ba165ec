package resources

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

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
