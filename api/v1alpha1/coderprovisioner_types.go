package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CoderProvisioner is a set of external provisioner daemons of one Coder: the Deployment, the
// provisioner key with which the daemons authenticate, and the RBAC permissions that Terraform
// needs for workspaces.
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
// +kubebuilder:validation:XValidation:rule="has(self.spec.pskSecretRef) || (has(self.spec.key) && (has(self.spec.key.secretRef) || (has(self.spec.key.name) && size(self.spec.key.name) > 0))) || !(self.metadata.name in ['built-in', 'user-auth', 'psk'])",message="metadata.name: this name is reserved in Coder, and the key would get it; choose another name, or set spec.key.name",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.controlPlaneRefName) || (has(self.spec.controlPlaneRef) == has(oldSelf.spec.controlPlaneRef) && (!has(self.spec.controlPlaneRef) || self.spec.controlPlaneRef.name == oldSelf.spec.controlPlaneRef.name))",message="spec.controlPlaneRef: cannot change after the provisioner key was created; create a new CoderProvisioner and delete this one",fieldPath=".spec.controlPlaneRef"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.controlPlaneRefName) || (has(self.spec.organizationName) && size(self.spec.organizationName) > 0 ? self.spec.organizationName : 'default') == (has(oldSelf.spec.organizationName) && size(oldSelf.spec.organizationName) > 0 ? oldSelf.spec.organizationName : 'default')",message="spec.organizationName: cannot change after the provisioner key was created; create a new CoderProvisioner and delete this one",fieldPath=".spec.organizationName"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.controlPlaneRefName) || (has(self.spec.key) && has(self.spec.key.secretName) && size(self.spec.key.secretName) > 0 ? self.spec.key.secretName : self.metadata.name + '-provisioner-key') == (has(oldSelf.spec.key) && has(oldSelf.spec.key.secretName) && size(oldSelf.spec.key.secretName) > 0 ? oldSelf.spec.key.secretName : self.metadata.name + '-provisioner-key')",message="spec.key.secretName: cannot change after the provisioner key was created; create a new CoderProvisioner and delete this one",fieldPath=".spec.key.secretName"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.controlPlaneRefName) || (has(self.spec.key) && has(self.spec.key.secretKey) && size(self.spec.key.secretKey) > 0 ? self.spec.key.secretKey : 'key') == (has(oldSelf.spec.key) && has(oldSelf.spec.key.secretKey) && size(oldSelf.spec.key.secretKey) > 0 ? oldSelf.spec.key.secretKey : 'key')",message="spec.key.secretKey: cannot change after the provisioner key was created; create a new CoderProvisioner and delete this one",fieldPath=".spec.key.secretKey"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.replicas) || oldSelf.status.replicas == 0 || (has(self.spec.serviceAccount) && has(self.spec.serviceAccount.name) && size(self.spec.serviceAccount.name) > 0 ? self.spec.serviceAccount.name : self.metadata.name + '-provisioner') == (has(oldSelf.spec.serviceAccount) && has(oldSelf.spec.serviceAccount.name) && size(oldSelf.spec.serviceAccount.name) > 0 ? oldSelf.spec.serviceAccount.name : self.metadata.name + '-provisioner')",message="spec.serviceAccount.name: cannot change while pods run with this ServiceAccount; create a new CoderProvisioner and delete this one, or set spec.replicas to 0 until its pods are gone",fieldPath=".spec.serviceAccount.name"
type CoderProvisioner struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state of the provisioners.
	Spec CoderProvisionerSpec `json:"spec"`
	// Status is the observed state of the provisioners.
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

// CoderProvisionerSpec is the desired state of a set of provisioners.
//
// +kubebuilder:validation:XValidation:rule="has(self.controlPlaneRef) != (has(self.url) && size(self.url) > 0)",message="spec: the provisioners belong to a controlPlaneRef in this namespace or to the Coder at a url; give exactly one"
// +kubebuilder:validation:XValidation:rule="!(has(self.url) && size(self.url) > 0) || has(self.pskSecretRef) || (has(self.key) && has(self.key.secretRef))",message="spec.url: the operator makes no key in a Coder that is not its own; give one in spec.key.secretRef, or a pre-shared key in spec.pskSecretRef"
// +kubebuilder:validation:XValidation:rule="!(has(self.pskSecretRef) && has(self.key) && has(self.key.secretRef))",message="spec.pskSecretRef: the daemons log in with it or with spec.key.secretRef; give one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.pskSecretRef) || !has(self.organizationName) || self.organizationName == 'default'",message="spec.organizationName: daemons with a pre-shared key work for the default organization; remove it, or use a provisioner key"
// +kubebuilder:validation:XValidation:rule="!(has(self.key) && has(self.key.secretRef) && has(self.tags) && size(self.tags) > 0)",message="spec.tags: cannot be set with spec.key.secretRef, because that key has its own tags; remove spec.tags"
// +kubebuilder:validation:XValidation:rule="!has(self.extraEnv) || !self.extraEnv.exists(e, e.name in ['CODER_PROVISIONER_DAEMON_KEY', 'CODER_PROVISIONER_DAEMON_PSK'])",message="spec.extraEnv: CODER_PROVISIONER_DAEMON_KEY and CODER_PROVISIONER_DAEMON_PSK are not set here; give a key of your own in spec.key.secretRef, or a pre-shared key in spec.pskSecretRef"
// +kubebuilder:validation:XValidation:rule="!has(self.podTemplate) || !has(self.podTemplate.spec) || !has(self.podTemplate.spec.containers) || self.podTemplate.spec.containers.all(c, c.name == 'provisioner' || (has(c.image) && size(c.image) > 0))",message="spec.podTemplate.spec.containers: a container that is added needs an image; the container of Coder, into which an entry is merged, has the name provisioner"
type CoderProvisionerSpec struct {
	// ControlPlaneRef refers to the control plane whose jobs the provisioners run. It cannot change
	// after the operator has created a key.
	// +optional
	ControlPlaneRef *ControlPlaneReference `json:"controlPlaneRef,omitempty"`
	// URL is the URL of a Coder that is not a control plane in this namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || (isURL(self) && url(self).getScheme() in ['http', 'https'] && size(url(self).getHost()) > 0)",message="must be an address that begins with http:// or https://, for example https://coder.example.com"
	URL string `json:"url,omitempty"`
	// OrganizationName is the organization in Coder whose jobs the provisioners run. The value
	// default means Coder's default organization, whatever its name is. Defaults to default. It
	// cannot change after the operator has created a key.
	// +optional
	// +kubebuilder:default=default
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*$')",message="must be the name of an organization of Coder: letters, digits and single dashes between them"
	OrganizationName string `json:"organizationName,omitempty"`
	// Key configures the provisioner key with which the daemons authenticate.
	// +optional
	// +kubebuilder:default={}
	Key ProvisionerKeySpec `json:"key,omitzero"`
	// PSKSecretRef refers to a pre-shared key, which is used instead of a provisioner key. Coder
	// must be configured with the same key in CODER_PROVISIONER_DAEMON_PSK
	// (spec.provisionerPSKSecretRef of a control plane).
	// +optional
	PSKSecretRef *PSKSecretReference `json:"pskSecretRef,omitempty"`
	// Tags select the jobs that the provisioners run. If they change, the operator creates a new
	// provisioner key.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Tags map[string]string `json:"tags,omitempty"`
	// Image is the container image of Coder. Defaults to status.image of the control plane, the
	// image of the running Coder. Coder refuses provisioners of a newer minor version, so they are
	// updated after the control plane.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.contains(' ')",message="must be an image without blanks, for example ghcr.io/coder/coder:v2.34.8"
	Image string `json:"image,omitempty"`

	WorkloadSpec `json:",inline"`

	// RBAC configures the permissions of the ServiceAccount.
	// +optional
	// +kubebuilder:default={}
	RBAC RBACSpec `json:"rbac,omitzero"`
}

// ProvisionerKeySpec configures a provisioner key.
type ProvisionerKeySpec struct {
	// Name is the name of the key in Coder. Defaults to the name of the CoderProvisioner. While a
	// key is replaced, the new key has the name <name>-2. The next replacement uses <name> again,
	// and so on. If the name is in use, the suffix is a higher number.
	// +optional
	// +kubebuilder:validation:MaxLength=62
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('^[a-zA-Z0-9][-_.a-zA-Z0-9]*$')",message="must begin with a letter or digit and consist of letters, digits, dashes, underscores and dots"
	// +kubebuilder:validation:XValidation:rule="!(self.lowerAscii() in ['built-in', 'user-auth', 'psk'])",message="is a name that Coder keeps for itself; choose another"
	Name string `json:"name,omitempty"`
	// SecretName is the name of the Secret in which the operator stores the key. Defaults to
	// <name>-provisioner-key. It cannot change after the operator has created a key. If the Secret
	// is deleted, the operator creates a new key.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	SecretName string `json:"secretName,omitempty"`
	// SecretKey is the key in that Secret. Defaults to key. It cannot change after the operator has
	// created a key.
	// +optional
	// +kubebuilder:default=key
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="must be a key of a Secret: letters, digits, dashes, underscores and dots"
	SecretKey string `json:"secretKey,omitempty"`
	// RotateAfter is the age at which the key is replaced, for example 720h. The minimum is 1h. If
	// it is unset, the key is not rotated.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1h')",message="must be a duration of an hour or more, for example 720h"
	RotateAfter *metav1.Duration `json:"rotateAfter,omitempty"`
	// SecretRef refers to a provisioner key that you created yourself. The operator then creates
	// none.
	// +optional
	SecretRef *ProvisionerKeySecretReference `json:"secretRef,omitempty"`
}

// ProvisionerKeySecretReference refers to a key of a Secret in the same namespace.
type ProvisionerKeySecretReference struct {
	// Name is the name of the Secret.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	Name string `json:"name"`
	// Key is the key in the Secret that contains the provisioner key. Defaults to key.
	// +optional
	// +kubebuilder:default=key
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="must be a key of a Secret: letters, digits, dashes, underscores and dots"
	Key string `json:"key,omitempty"`
}

// CoderProvisionerStatus is the observed state of a set of provisioners.
type CoderProvisionerStatus struct {
	WorkloadStatus `json:",inline"`

	// ControlPlaneURL is the URL of Coder that the daemons use.
	// +optional
	ControlPlaneURL string `json:"controlPlaneURL,omitempty"`
	// ControlPlaneRefName is the name of the control plane in which the key is created. It is set
	// before the key is created. From then on, the fields that identify the key cannot change.
	// +optional
	ControlPlaneRefName string `json:"controlPlaneRefName,omitempty"`
	// OrganizationID and OrganizationName identify the organization of the key.
	// +optional
	OrganizationID string `json:"organizationID,omitempty"`
	// +optional
	OrganizationName string `json:"organizationName,omitempty"`
	// ProvisionerKeyID and ProvisionerKeyName identify the key in Coder.
	// +optional
	ProvisionerKeyID string `json:"provisionerKeyID,omitempty"`
	// +optional
	ProvisionerKeyName string `json:"provisionerKeyName,omitempty"`
	// TagsHash is a hash of the key's tags.
	// +optional
	TagsHash string `json:"tagsHash,omitempty"`
	// SecretRef refers to the key of the Secret that contains the provisioner key.
	// +optional
	SecretRef *ProvisionerKeySecretReference `json:"secretRef,omitempty"`
}
