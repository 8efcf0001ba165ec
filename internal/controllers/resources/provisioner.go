package resources

import (
	"cmp"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

const (
	// ProvisionerContainer is the name of Coder's container.
	ProvisionerContainer = "provisioner"

	// provisionerGracePeriod is the time in seconds in which a daemon can finish its job.
	provisionerGracePeriod = 600
	// podSuffix is the maximum length of the suffix that a Deployment appends to its name for a
	// pod.
	podSuffix = 17
)

// ProvisionerInputs contains the values that a Workload needs in addition to the spec.
type ProvisionerInputs struct {
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
	Adopted *Adopted
	// Live is the pod template of the current Deployment, or nil if there is none.
	Live *corev1.PodTemplateSpec
	Cluster
}

// Provisioner returns a CoderProvisioner in the form that the shared builders use.
func Provisioner(p *coderv1alpha1.CoderProvisioner, in ProvisionerInputs) Workload {
	name := ProvisionerDeploymentName(p.Name)
	// In other namespaces the names contain a hash, because a provisioner of the same name in a third namespace may have
	// objects there too.
	remote := ScopedName(name, Hash(p.Namespace, p.Name), "")
	return Workload{
		Cluster: in.Cluster,
		Name:    provisionerName(p), Namespace: p.Namespace,
		Labels:    ProvisionerLabels(p.Name),
		Component: "provisionerd",
		Container: ProvisionerContainer,
		Image:     cmp.Or(p.Spec.Image, in.ControlPlaneImage, DefaultImage),
		// The image's entry point runs "coder server". coder is in the PATH of the image.
		Command:            []string{"coder"},
		Args:               []string{"provisioner", "start"},
		Env:                provisionerEnvironment(p, in),
		ServiceAccountName: provisionerAccount(p),
		GracePeriodSeconds: provisionerGracePeriod,
		Adopted:            in.Adopted,
		Live:               in.Live,
		Spec:               &p.Spec.WorkloadSpec,
		// A key is deleted only when no pod uses it.
		PodAnnotations: map[string]string{coderv1alpha1.AnnotationProvisionerKeyID: in.KeyID},
		Rights: &Rights{
			Spec:     &p.Spec.RBAC,
			RoleName: name, BindingName: name, RemoteRoleName: remote, RemoteBindingName: remote,
			OwnerLabels: map[string]string{
				coderv1alpha1.LabelProvisioner:          coderv1alpha1.SuffixedName(p.Name, ""),
				coderv1alpha1.LabelProvisionerNamespace: p.Namespace,
			},
			OwnerAnnotations: map[string]string{coderv1alpha1.AnnotationOwnerUID: string(p.UID)},
		},
	}
}

// GracePeriodSeconds returns the termination grace period of the pods.
func GracePeriodSeconds(p *coderv1alpha1.CoderProvisioner) int64 {
	if t := p.Spec.PodTemplate; t != nil && t.Spec.TerminationGracePeriodSeconds != nil {
		return *t.Spec.TerminationGracePeriodSeconds
	}
	return ptr.Deref(p.Spec.TerminationGracePeriodSeconds, provisionerGracePeriod)
}

func provisionerEnvironment(p *coderv1alpha1.CoderProvisioner, in ProvisionerInputs) []corev1.EnvVar {
	env := []corev1.EnvVar{{Name: "CODER_URL", Value: in.URL}}
	switch ref := KeySource(p, in.KeySecret); {
	case p.Spec.PSKSecretRef != nil:
		env = append(env, FromSecret("CODER_PROVISIONER_DAEMON_PSK", ref.Name, ref.Key))
		if len(p.Spec.Tags) > 0 {
			env = append(env, corev1.EnvVar{Name: "CODER_PROVISIONERD_TAGS", Value: tagsVariable(p.Spec.Tags)})
		}
	case ref != nil:
		env = append(env, FromSecret("CODER_PROVISIONER_DAEMON_KEY", ref.Name, ref.Key))
	}
	// By default the name of a daemon is its host name. That is the name of the pod up to the first
	// dot and 63 characters. Two pods must not have the same name.
	if name := provisionerName(p); len(name)+podSuffix > maxLabelLength || strings.Contains(name, ".") {
		env = append(env, corev1.EnvVar{Name: "CODER_PROVISIONER_DAEMON_NAME", ValueFrom: &corev1.EnvVarSource{
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
		return &coderv1alpha1.ProvisionerKeySecretReference{Name: ref.Name, Key: cmp.Or(ref.Key, defaultPSKKey)}
	case p.Spec.Key.SecretRef != nil:
		ref := p.Spec.Key.SecretRef
		return &coderv1alpha1.ProvisionerKeySecretReference{Name: ref.Name, Key: cmp.Or(ref.Key, defaultSecretKey)}
	}
	return made
}

// MakesKey reports whether the operator creates the key.
func MakesKey(p *coderv1alpha1.CoderProvisioner) bool {
	return p.Spec.PSKSecretRef == nil && p.Spec.Key.SecretRef == nil && p.Spec.URL == ""
}

const (
	// maxKeyName leaves room for the suffix of a replacement. Coder allows 64 characters.
	maxKeyName = 62
	// keyNames is the number of names that one provisioner can use for its keys. Two of them
	// alternate. More are used if a key is replaced before the last replacement ended, or if
	// another owner's key has one of the names.
	keyNames = 9

	defaultSecretKey = "key"
	defaultPSKKey    = "psk"
)

// ProvisionerDeploymentName returns the default name of the Deployment, which is also the prefix of
// the names of other objects.
func ProvisionerDeploymentName(name string) string {
	return coderv1alpha1.ShortName("provisioner-", name, "", maxLabelLength)
}

// provisionerName returns the name of the Deployment: the one in the annotation if a Deployment was
// handed over, otherwise the default.
func provisionerName(p *coderv1alpha1.CoderProvisioner) string {
	return cmp.Or(p.Annotations[coderv1alpha1.AnnotationWorkloadName], ProvisionerDeploymentName(p.Name))
}

func provisionerAccount(p *coderv1alpha1.CoderProvisioner) string {
	return cmp.Or(p.Spec.ServiceAccount.Name, coderv1alpha1.ShortName("", p.Name, "-provisioner", maxObjectLength))
}

// KeySecretName returns the name of the Secret in which the operator stores the key that it
// created.
func KeySecretName(p *coderv1alpha1.CoderProvisioner) string {
	return cmp.Or(p.Spec.Key.SecretName, coderv1alpha1.ShortName("", p.Name, "-provisioner-key", maxObjectLength))
}

// KeySecretKey returns the entry of that Secret.
func KeySecretKey(p *coderv1alpha1.CoderProvisioner) string {
	return cmp.Or(p.Spec.Key.SecretKey, defaultSecretKey)
}

// KeyName returns the name of the key in Coder.
func KeyName(p *coderv1alpha1.CoderProvisioner) string {
	return cmp.Or(p.Spec.Key.Name, coderv1alpha1.ShortName("", p.Name, "", maxKeyName))
}

// KeyNames returns the names that the key may have in Coder, in the order in which they are tried.
func KeyNames(p *coderv1alpha1.CoderProvisioner) []string {
	names := []string{KeyName(p)}
	for n := 2; n <= keyNames; n++ {
		names = append(names, fmt.Sprintf("%s-%d", KeyName(p), n))
	}
	return names
}

// OrganizationName returns the organization of the spec, or the default organization.
func OrganizationName(p *coderv1alpha1.CoderProvisioner) string {
	return cmp.Or(p.Spec.OrganizationName, "default")
}

// ProvisionerLabels returns the labels of every object. They select the pods.
func ProvisionerLabels(name string) map[string]string {
	return map[string]string{
		coderv1alpha1.LabelName:      coderv1alpha1.ProvisionerName,
		coderv1alpha1.LabelInstance:  coderv1alpha1.SuffixedName(name, ""),
		coderv1alpha1.LabelManagedBy: coderv1alpha1.ManagedBy,
	}
}

// TagsHash returns a hash of tags that does not depend on their order.
func TagsHash(tags map[string]string) string {
	sum := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		sum.Write([]byte(key + "\x00" + tags[key] + "\x00"))
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// tagsVariable returns tags in the form that the daemon reads from its environment: one CSV record.
func tagsVariable(tags map[string]string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		pairs = append(pairs, key+"="+tags[key])
	}
	var out strings.Builder
	// Writing to memory cannot fail.
	w := csv.NewWriter(&out)
	_ = w.Write(pairs)
	w.Flush()
	return strings.TrimSuffix(out.String(), "\n")
}
