package resources

import (
	"fmt"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	workloadresources "github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

const (
	maxLabelLength  = 63
	maxObjectLength = 253
	// maxKeyName leaves room for the suffix of a replacement: Coder allows 64.
	maxKeyName = 62
	// keyNames is how many names one provisioner uses for its keys: two in turns,
	// and more where a key is replaced before the last replacement ended, or where
	// someone else has the second name.
	keyNames = 9

	defaultSecretKey = "key"
	defaultPSKKey    = "psk"
)

// DeploymentName is the name of the Deployment; those of its other objects begin
// with it.
func DeploymentName(name string) string {
	return workloadresources.ShortName("provisioner-", name, "", maxLabelLength)
}

// WorkloadName is that of the Deployment: the one that was handed over where the
// annotation names it.
func WorkloadName(p *coderv1alpha1.CoderProvisioner) string {
	if name := p.Annotations[coderv1alpha1.AnnotationWorkloadName]; name != "" {
		return name
	}
	return DeploymentName(p.Name)
}

// ServiceAccountName is the identity of the pods.
func ServiceAccountName(p *coderv1alpha1.CoderProvisioner) string {
	if p.Spec.ServiceAccount.Name != "" {
		return p.Spec.ServiceAccount.Name
	}
	return workloadresources.ShortName("", p.Name, "-provisioner", maxObjectLength)
}

// KeySecretName is the Secret in which the operator keeps the key that it made.
func KeySecretName(p *coderv1alpha1.CoderProvisioner) string {
	if p.Spec.Key.SecretName != "" {
		return p.Spec.Key.SecretName
	}
	return workloadresources.ShortName("", p.Name, "-provisioner-key", maxObjectLength)
}

// KeySecretKey is the key in that Secret.
func KeySecretKey(p *coderv1alpha1.CoderProvisioner) string {
	if p.Spec.Key.SecretKey != "" {
		return p.Spec.Key.SecretKey
	}
	return defaultSecretKey
}

// KeyName is the name of the key in Coder.
func KeyName(p *coderv1alpha1.CoderProvisioner) string {
	if p.Spec.Key.Name != "" {
		return p.Spec.Key.Name
	}
	return workloadresources.ShortName("", p.Name, "", maxKeyName)
}

// KeyNames are the names that the key may have in Coder, in the order in which
// they are tried.
func KeyNames(p *coderv1alpha1.CoderProvisioner) []string {
	names := []string{KeyName(p)}
	for n := 2; n <= keyNames; n++ {
		names = append(names, fmt.Sprintf("%s-%d", KeyName(p), n))
	}
	return names
}

// OrganizationName is the organization as the spec names it.
func OrganizationName(p *coderv1alpha1.CoderProvisioner) string {
	if p.Spec.OrganizationName != "" {
		return p.Spec.OrganizationName
	}
	return "default"
}

// Labels are on every object, and select the pods.
func Labels(name string) map[string]string {
	return map[string]string{
		coderv1alpha1.LabelName:      coderv1alpha1.ProvisionerName,
		coderv1alpha1.LabelInstance:  workloadresources.LabelValue(name),
		coderv1alpha1.LabelManagedBy: coderv1alpha1.ManagedBy,
	}
}
