package resources

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	workloadresources "github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

const (
	// Container is the name of Coder's container.
	Container = "provisioner"

	// gracePeriod is the time in seconds in which a daemon can finish its job.
	gracePeriod = 600
	// podSuffix is the maximum length of the suffix that a Deployment appends to its name for a
	// pod.
	podSuffix = 17

	envURL        = "CODER_URL"
	envKey        = "CODER_PROVISIONER_DAEMON_KEY"
	envPSK        = "CODER_PROVISIONER_DAEMON_PSK"
	envTags       = "CODER_PROVISIONERD_TAGS"
	envDaemonName = "CODER_PROVISIONER_DAEMON_NAME"
)

// Inputs contains the values that a Workload needs in addition to the spec.
type Inputs struct {
	// URL is the URL at which the daemons reach Coder.
	URL string
	// ControlPlaneImage is the image of the Coder that answers. It is used if the spec names no
	// image, because Coder rejects provisioners of a newer minor version.
	ControlPlaneImage string
	// KeySecret is the location of the key that the operator created. It is not used if the spec
	// names a Secret.
	KeySecret *coderv1alpha1.ProvisionerKeySecretReference
	// KeyID is the id of that key. A change rolls the pods.
	KeyID string
	// Adopted describes a Deployment that was handed over, or is nil.
	Adopted *workloadresources.Adopted
	// OperatorNamespace is the namespace of the operator.
	OperatorNamespace string
}

// Workload returns a CoderProvisioner in the form that the shared builders use.
func Workload(p *coderv1alpha1.CoderProvisioner, in Inputs) workloadresources.Workload {
	return workloadresources.Workload{
		Name: WorkloadName(p), Namespace: p.Namespace,
		Labels:    Labels(p.Name),
		Component: "provisionerd",
		Container: Container,
		Image:     image(p, in),
		// The image's entry point runs "coder server". coder is in the PATH of the image.
		Command:            []string{"coder"},
		Args:               []string{"provisioner", "start"},
		Env:                environment(p, in),
		ServiceAccountName: ServiceAccountName(p),
		GracePeriodSeconds: gracePeriod,
		OperatorNamespace:  in.OperatorNamespace,
		Adopted:            in.Adopted,
		Spec:               specWithKeyID(p, in.KeyID),
		Rights:             rights(p),
	}
}

// rights returns the permissions that Terraform needs for workspaces. In other namespaces the names
// contain a hash, because a provisioner of the same name in a third namespace may have objects
// there too.
func rights(p *coderv1alpha1.CoderProvisioner) *workloadresources.Rights {
	name := DeploymentName(p.Name)
	remote := workloadresources.ScopedName(name, workloadresources.Hash(p.Namespace, p.Name), "")
	return &workloadresources.Rights{
		Spec:     &p.Spec.RBAC,
		RoleName: name, BindingName: name, RemoteRoleName: remote, RemoteBindingName: remote,
		OwnerLabels: map[string]string{
			coderv1alpha1.LabelProvisioner:          workloadresources.LabelValue(p.Name),
			coderv1alpha1.LabelProvisionerNamespace: p.Namespace,
		},
		OwnerAnnotations: map[string]string{coderv1alpha1.AnnotationOwnerUID: string(p.UID)},
	}
}

// GracePeriodSeconds returns the termination grace period of the pods.
func GracePeriodSeconds(p *coderv1alpha1.CoderProvisioner) int64 {
	if t := p.Spec.PodTemplate; t != nil && t.Spec.TerminationGracePeriodSeconds != nil {
		return *t.Spec.TerminationGracePeriodSeconds
	}
	if seconds := p.Spec.TerminationGracePeriodSeconds; seconds != nil {
		return *seconds
	}
	return gracePeriod
}

func image(p *coderv1alpha1.CoderProvisioner, in Inputs) string {
	for _, image := range []string{p.Spec.Image, in.ControlPlaneImage} {
		if image != "" {
			return image
		}
	}
	return workloadresources.DefaultImage
}

// specWithKeyID returns the spec with the id of the key as an annotation of the pods, so that a key
// is deleted only when no pod uses it. A value of the user in that annotation is overridden.
func specWithKeyID(p *coderv1alpha1.CoderProvisioner, id string) *coderv1alpha1.WorkloadSpec {
	spec := p.Spec.WorkloadSpec.DeepCopy()
	given := spec.PodTemplate != nil && spec.PodTemplate.Annotations[coderv1alpha1.AnnotationProvisionerKeyID] != ""
	if id == "" && !given {
		return spec
	}
	if spec.PodTemplate == nil {
		spec.PodTemplate = &corev1.PodTemplateSpec{}
	}
	if spec.PodTemplate.Annotations == nil {
		spec.PodTemplate.Annotations = map[string]string{}
	}
	if id == "" {
		delete(spec.PodTemplate.Annotations, coderv1alpha1.AnnotationProvisionerKeyID)
	} else {
		spec.PodTemplate.Annotations[coderv1alpha1.AnnotationProvisionerKeyID] = id
	}
	return spec
}

func environment(p *coderv1alpha1.CoderProvisioner, in Inputs) []corev1.EnvVar {
	env := []corev1.EnvVar{
		{Name: envURL, Value: in.URL},
	}
	switch ref := KeySource(p, in.KeySecret); {
	case p.Spec.PSKSecretRef != nil:
		env = append(env, workloadresources.FromSecret(envPSK, ref.Name, ref.Key))
		if len(p.Spec.Tags) > 0 {
			env = append(env, corev1.EnvVar{Name: envTags, Value: tagsVariable(p.Spec.Tags)})
		}
	case ref != nil:
		env = append(env, workloadresources.FromSecret(envKey, ref.Name, ref.Key))
	}
	// By default the name of a daemon is its host name. That is the name of the pod up to the first
	// dot and 63 characters. Two pods must not have the same name.
	if name := WorkloadName(p); len(name)+podSuffix > maxLabelLength || strings.Contains(name, ".") {
		env = append(env, corev1.EnvVar{Name: envDaemonName, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.uid"},
		}})
	}
	return env
}

// KeySource returns the Secret with the daemons' credentials: that of the spec, or made, which may
// be nil.
func KeySource(p *coderv1alpha1.CoderProvisioner, made *coderv1alpha1.ProvisionerKeySecretReference) *coderv1alpha1.ProvisionerKeySecretReference {
	switch {
	case p.Spec.PSKSecretRef != nil:
		ref := p.Spec.PSKSecretRef
		return &coderv1alpha1.ProvisionerKeySecretReference{Name: ref.Name, Key: orDefault(ref.Key, defaultPSKKey)}
	case p.Spec.Key.SecretRef != nil:
		ref := p.Spec.Key.SecretRef
		return &coderv1alpha1.ProvisionerKeySecretReference{Name: ref.Name, Key: orDefault(ref.Key, defaultSecretKey)}
	}
	return made
}

// MakesKey reports whether the operator creates the key.
func MakesKey(p *coderv1alpha1.CoderProvisioner) bool {
	return p.Spec.PSKSecretRef == nil && p.Spec.Key.SecretRef == nil && p.Spec.URL == ""
}

func orDefault(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}
