package resources

import (
	"fmt"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	workloadresources "github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

const (
	maxLabelLength  = 63
	maxObjectLength = 253
	// maxKeyName leaves room for the suffix of a replacement. Coder allows 64 characters.
	maxKeyName = 62
	// keyNames is the number of names that one provisioner can use for its keys. Two of them
	// alternate. More are used if a key is replaced before the last replacement ended, or if
	// another owner's key has one of the names.
	keyNames = 9

	defaultSecretKey = "key"
	defaultPSKKey    = "psk"
)

// DeploymentName returns the default name of the Deployment, which is also the prefix of the names
// of other objects.
func DeploymentName(name string) string {
	return workloadresources.ShortName("provisioner-", name, "", maxLabelLength)
}

// WorkloadName returns the name of the Deployment: the one in the annotation if a Deployment was
// handed over, otherwise the default.
func WorkloadName(p *coderv1alpha1.CoderProvisioner) string {
	if name := p.Annotations[coderv1alpha1.AnnotationWorkloadName]; name != "" {
		return name
	}
	return DeploymentName(p.Name)
}

// ServiceAccountName returns the name of the pods' ServiceAccount.
func ServiceAccountName(p *coderv1alpha1.CoderProvisioner) string {
	if p.Spec.ServiceAccount.Name != "" {
		return p.Spec.ServiceAccount.Name
	}
	return workloadresources.ShortName("", p.Name, "-provisioner", maxObjectLength)
}

// KeySecretName returns the name of the Secret in which the operator stores the key that it
// created.
func KeySecretName(p *coderv1alpha1.CoderProvisioner) string {
	if p.Spec.Key.SecretName != "" {
		return p.Spec.Key.SecretName
	}
	return workloadresources.ShortName("", p.Name, "-provisioner-key", maxObjectLength)
}

// KeySecretKey returns the entry of that Secret.
func KeySecretKey(p *coderv1alpha1.CoderProvisioner) string {
	if p.Spec.Key.SecretKey != "" {
		return p.Spec.Key.SecretKey
	}
	return defaultSecretKey
}

// KeyName returns the name of the key in Coder.
func KeyName(p *coderv1alpha1.CoderProvisioner) string {
	if p.Spec.Key.Name != "" {
		return p.Spec.Key.Name
	}
	return workloadresources.ShortName("", p.Name, "", maxKeyName)
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
	if p.Spec.OrganizationName != "" {
		return p.Spec.OrganizationName
	}
	return "default"
}

// Labels returns the labels of every object. They select the pods.
func Labels(name string) map[string]string {
	return map[string]string{
		coderv1alpha1.LabelName:      coderv1alpha1.ProvisionerName,
		coderv1alpha1.LabelInstance:  workloadresources.LabelValue(name),
		coderv1alpha1.LabelManagedBy: coderv1alpha1.ManagedBy,
	}
}
