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

	// gracePeriod lets a daemon finish the job that it has.
	gracePeriod = 600
	// podSuffix is what a Deployment appends to its name for a pod at most.
	podSuffix = 17

	envURL        = "CODER_URL"
	envKey        = "CODER_PROVISIONER_DAEMON_KEY"
	envPSK        = "CODER_PROVISIONER_DAEMON_PSK"
	envTags       = "CODER_PROVISIONERD_TAGS"
	envDaemonName = "CODER_PROVISIONER_DAEMON_NAME"
)

// Inputs are what a Workload needs besides the spec.
type Inputs struct {
	// URL is where the daemons reach Coder.
	URL string
	// ControlPlaneImage runs if the spec names no image. It is the one that answers,
	// because Coder refuses provisioners of a newer minor version.
	ControlPlaneImage string
	// KeySecret is where the daemons find the key that the operator made. It is not
	// used where the spec names a Secret.
	KeySecret *coderv1alpha1.ProvisionerKeySecretReference
	// KeyID identifies that key. A change rolls the pods.
	KeyID string
	// Adopted is what stays of a Deployment that was handed over, or nil.
	Adopted *workloadresources.Adopted
	// OperatorNamespace is where the operator runs.
	OperatorNamespace string
}

// Workload is a CoderProvisioner as the shared builders take it.
func Workload(p *coderv1alpha1.CoderProvisioner, in Inputs) workloadresources.Workload {
	return workloadresources.Workload{
		Name: WorkloadName(p), Namespace: p.Namespace,
		Labels:    Labels(p.Name),
		Component: "provisionerd",
		Container: Container,
		Image:     image(p, in),
		// The image's entry point runs "coder server"; coder is in its PATH.
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

// rights are those that Terraform needs for workspaces. In other namespaces a
// provisioner of the same name in a third one may have its own.
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

// GracePeriodSeconds is how long a pod may take to end.
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

// specWithKeyID notes on the pods which key they hold, so that a key is deleted
// only when no pod holds it any more. Nobody's annotation can stand in for that.
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
	// A daemon takes the name of its host, and that is the pod's up to the first
	// dot and 63 characters. Two pods must not share it.
	if name := WorkloadName(p); len(name)+podSuffix > maxLabelLength || strings.Contains(name, ".") {
		env = append(env, corev1.EnvVar{Name: envDaemonName, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.uid"},
		}})
	}
	return env
}

// KeySource is the Secret with which the daemons log in: the spec's, or the one
// given, which may be nil.
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

// MakesKey says that the operator makes the key.
func MakesKey(p *coderv1alpha1.CoderProvisioner) bool {
	return p.Spec.PSKSecretRef == nil && p.Spec.Key.SecretRef == nil && p.Spec.URL == ""
}

func orDefault(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}
