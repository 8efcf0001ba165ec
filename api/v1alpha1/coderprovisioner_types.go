package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CoderProvisioner is a set of external provisioner daemons of one Coder: their
// Deployment, the provisioner key with which they log in, and the rights that
// Terraform needs for workspaces.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=cprov,categories=coder
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Organization",type=string,JSONPath=`.status.organizationName`
// +kubebuilder:printcolumn:name="Key",type=string,JSONPath=`.status.provisionerKeyName`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="has(self.spec.pskSecretRef) || (has(self.spec.key) && (has(self.spec.key.secretRef) || (has(self.spec.key.name) && size(self.spec.key.name) > 0))) || !(self.metadata.name in ['built-in', 'user-auth', 'psk'])",message="metadata.name: is a name that Coder keeps for itself, and the key gets it too; choose another, or name the key in spec.key.name"
type CoderProvisioner struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is wanted.
	Spec CoderProvisionerSpec `json:"spec"`
	// Status is what was last seen.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status CoderProvisionerStatus `json:"status,omitzero"`
}

// CoderProvisionerList is a list of provisioners.
//
// +kubebuilder:object:root=true
type CoderProvisionerList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CoderProvisioner `json:"items"`
}

// CoderProvisionerSpec is what is wanted of provisioners.
//
// +kubebuilder:validation:XValidation:rule="has(self.controlPlaneRef) != (has(self.url) && size(self.url) > 0)",message="spec: the provisioners belong to a controlPlaneRef in this namespace or to the Coder at a url; give exactly one"
// +kubebuilder:validation:XValidation:rule="!(has(self.url) && size(self.url) > 0) || has(self.pskSecretRef) || (has(self.key) && has(self.key.secretRef))",message="spec.url: the operator makes no key in a Coder that is not its own; give one in spec.key.secretRef, or a pre-shared key in spec.pskSecretRef"
// +kubebuilder:validation:XValidation:rule="!(has(self.pskSecretRef) && has(self.key) && has(self.key.secretRef))",message="spec.pskSecretRef: the daemons log in with it or with spec.key.secretRef; give one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.pskSecretRef) || !has(self.organizationName) || self.organizationName == 'default'",message="spec.organizationName: daemons with a pre-shared key work for the default organization; remove it, or use a provisioner key"
// +kubebuilder:validation:XValidation:rule="!(has(self.key) && has(self.key.secretRef) && has(self.tags) && size(self.tags) > 0)",message="spec.tags: the tags of daemons with a key are those of the key, and the key of spec.key.secretRef is yours; remove spec.tags"
// +kubebuilder:validation:XValidation:rule="!has(self.extraEnv) || !self.extraEnv.exists(e, e.name in ['CODER_PROVISIONER_DAEMON_KEY', 'CODER_PROVISIONER_DAEMON_PSK'])",message="spec.extraEnv: CODER_PROVISIONER_DAEMON_KEY and CODER_PROVISIONER_DAEMON_PSK are not set here; give a key of your own in spec.key.secretRef, or a pre-shared key in spec.pskSecretRef"
// +kubebuilder:validation:XValidation:rule="!has(self.podTemplate) || !has(self.podTemplate.spec) || !has(self.podTemplate.spec.containers) || self.podTemplate.spec.containers.all(c, c.name == 'provisioner' || (has(c.image) && size(c.image) > 0))",message="spec.podTemplate.spec.containers: a container that is added needs an image; the container of Coder, into which an entry is merged, has the name provisioner"
type CoderProvisionerSpec struct {
	// ControlPlaneRef names the control plane whose jobs they run.
	// +optional
	ControlPlaneRef *ControlPlaneReference `json:"controlPlaneRef,omitempty"`
	// URL of a Coder that is no control plane of this namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || (isURL(self) && url(self).getScheme() in ['http', 'https'] && size(url(self).getHost()) > 0)",message="must be an address that begins with http:// or https://, for example https://coder.example.com"
	URL string `json:"url,omitempty"`
	// OrganizationName is the organization of Coder whose jobs they run. "default"
	// is the one with which Coder began, whatever its name.
	// +optional
	// +kubebuilder:default=default
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*$')",message="must be the name of an organization of Coder: letters, digits and single dashes between them"
	OrganizationName string `json:"organizationName,omitempty"`
	// Key is the provisioner key with which they log in.
	// +optional
	// +kubebuilder:default={}
	Key ProvisionerKeySpec `json:"key,omitzero"`
	// PSKSecretRef is a pre-shared key instead of a provisioner key. Coder must
	// have it in CODER_PROVISIONER_DAEMON_PSK (spec.provisionerPSKSecretRef of a
	// control plane).
	// +optional
	PSKSecretRef *PSKSecretReference `json:"pskSecretRef,omitempty"`
	// Tags choose which jobs they run. A change makes a new key.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Tags map[string]string `json:"tags,omitempty"`
	// Image is the container image of Coder. Unset, it is that of the control plane
	// that answers (its status.image): Coder refuses provisioners of a newer minor
	// version, so they are updated after it.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.contains(' ')",message="must be an image without blanks, for example ghcr.io/coder/coder:v2.34.8"
	Image string `json:"image,omitempty"`

	WorkloadSpec `json:",inline"`

	// RBAC is what the ServiceAccount may do.
	// +optional
	// +kubebuilder:default={}
	RBAC RBACSpec `json:"rbac,omitzero"`
}

// ProvisionerKeySpec is a provisioner key.
type ProvisionerKeySpec struct {
	// Name of the key in Coder. Unset, it is the name of the CoderProvisioner. While
	// a key is replaced, the new one has the name <name>-2, and so on in turns; where
	// that name is in use, it has a higher number.
	// +optional
	// +kubebuilder:validation:MaxLength=62
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('^[a-zA-Z0-9][-_.a-zA-Z0-9]*$')",message="must begin with a letter or digit and consist of letters, digits, dashes, underscores and dots"
	// +kubebuilder:validation:XValidation:rule="!(self.lowerAscii() in ['built-in', 'user-auth', 'psk'])",message="is a name that Coder keeps for itself; choose another"
	Name string `json:"name,omitempty"`
	// SecretName is the Secret in which the operator keeps the key. Unset, it is
	// <name>-provisioner-key. Whoever deletes it gets a new key.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	SecretName string `json:"secretName,omitempty"`
	// SecretKey is the key in that Secret.
	// +optional
	// +kubebuilder:default=key
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="must be a key of a Secret: letters, digits, dashes, underscores and dots"
	SecretKey string `json:"secretKey,omitempty"`
	// RotateAfter is the age at which the key is replaced. Unset, it is kept.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1h')",message="must be a duration of an hour or more, for example 720h"
	RotateAfter *metav1.Duration `json:"rotateAfter,omitempty"`
	// SecretRef is a provisioner key that you made yourself. The operator then makes
	// none.
	// +optional
	SecretRef *ProvisionerKeySecretReference `json:"secretRef,omitempty"`
}

// ProvisionerKeySecretReference names a key of a Secret in the same namespace.
type ProvisionerKeySecretReference struct {
	// Name of the Secret.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	Name string `json:"name"`
	// Key in the Secret that holds the provisioner key.
	// +optional
	// +kubebuilder:default=key
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="must be a key of a Secret: letters, digits, dashes, underscores and dots"
	Key string `json:"key,omitempty"`
}

// CoderProvisionerStatus is what was last seen of provisioners.
type CoderProvisionerStatus struct {
	WorkloadStatus `json:",inline"`

	// ControlPlaneURL is the address of Coder that the daemons use.
	// +optional
	ControlPlaneURL string `json:"controlPlaneURL,omitempty"`
	// ControlPlaneRefName is the control plane in which the key was made.
	// +optional
	ControlPlaneRefName string `json:"controlPlaneRefName,omitempty"`
	// OrganizationID and OrganizationName are those of the key.
	// +optional
	OrganizationID string `json:"organizationID,omitempty"`
	// +optional
	OrganizationName string `json:"organizationName,omitempty"`
	// ProvisionerKeyID and ProvisionerKeyName are those of the key in Coder.
	// +optional
	ProvisionerKeyID string `json:"provisionerKeyID,omitempty"`
	// +optional
	ProvisionerKeyName string `json:"provisionerKeyName,omitempty"`
	// TagsHash identifies the tags of the key.
	// +optional
	TagsHash string `json:"tagsHash,omitempty"`
	// SecretRef names the Secret key that holds the key.
	// +optional
	SecretRef *ProvisionerKeySecretReference `json:"secretRef,omitempty"`
}
