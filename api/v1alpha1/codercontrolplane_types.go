package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CoderControlPlane is one Coder deployment (coderd) and all that it needs in
// its namespace: Deployment, Service, ServiceAccount, the rights that Coder's
// workspaces need, and the operator's own access to Coder's API.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=ccp,categories=coder
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name: must have at most 63 characters, because it becomes the name of a Service and the value of a label"
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.contains('.')",message="metadata.name: must not contain a dot, because it becomes the name of a Service and a part of the names of workspaces; use a dash"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]')",message="metadata.name: must begin with a letter, because it becomes the name of a Service"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.operatorAccess.generatedTokenSecretName) || !(self.spec.operatorAccess.generatedTokenSecretName in [self.metadata.name + '-initial-admin', self.metadata.name + '-operator-credentials'])",message="spec.operatorAccess.generatedTokenSecretName: is the name of a Secret that the operator writes for something else; choose another"
type CoderControlPlane struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the deployment that is wanted.
	// +optional
	// +kubebuilder:default={}
	Spec CoderControlPlaneSpec `json:"spec,omitzero"`
	// Status is the deployment as it was last seen.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status CoderControlPlaneStatus `json:"status,omitzero"`
}

// CoderControlPlaneList is a list of control planes.
//
// +kubebuilder:object:root=true
type CoderControlPlaneList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CoderControlPlane `json:"items"`
}

// CoderControlPlaneSpec is the deployment that is wanted.
//
// +kubebuilder:validation:XValidation:rule="!has(self.service) || !has(self.service.enabled) || self.service.enabled || (has(self.operatorAccess) && has(self.operatorAccess.disabled) && self.operatorAccess.disabled)",message="spec.service.enabled: must not be false, because the operator calls Coder through its Service; keep the Service, or set spec.operatorAccess.disabled to true as well"
// +kubebuilder:validation:XValidation:rule="!has(self.database) || !has(self.extraEnv) || !self.extraEnv.exists(e, e.name == 'CODER_PG_CONNECTION_URL')",message="spec.database: CODER_PG_CONNECTION_URL in spec.extraEnv names a database too; keep one of them"
// +kubebuilder:validation:XValidation:rule="!(has(self.operatorAccess) && has(self.operatorAccess.disabled) && self.operatorAccess.disabled && has(self.licenseSecretRef))",message="spec.licenseSecretRef: a license is applied through Coder's API, which spec.operatorAccess.disabled forbids; enable operator access or remove the license"
// +kubebuilder:validation:XValidation:rule="!has(self.provisionerPSKSecretRef) || !has(self.extraEnv) || !self.extraEnv.exists(e, e.name == 'CODER_PROVISIONER_DAEMON_PSK')",message="spec.provisionerPSKSecretRef: CODER_PROVISIONER_DAEMON_PSK in spec.extraEnv is a pre-shared key too; keep one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.podTemplate) || !has(self.podTemplate.spec) || !has(self.podTemplate.spec.containers) || self.podTemplate.spec.containers.all(c, c.name == 'coder' || (has(c.image) && size(c.image) > 0))",message="spec.podTemplate.spec.containers: a container that is added needs an image; the container of Coder, into which an entry is merged, has the name coder"
type CoderControlPlaneSpec struct {
	// Image is the container image of Coder.
	// +optional
	// +kubebuilder:default="ghcr.io/coder/coder:v2.34.8"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.contains(' ')",message="must be an image without blanks, for example ghcr.io/coder/coder:v2.34.8"
	Image string `json:"image,omitempty"`

	WorkloadSpec `json:",inline"`
	ServingSpec  `json:",inline"`

	// Database is Coder's PostgreSQL. Instead of it, CODER_PG_CONNECTION_URL can be
	// set in extraEnv or envFrom.
	// +optional
	Database *DatabaseSpec `json:"database,omitempty"`
	// EnvUseClusterAccessURL sets CODER_ACCESS_URL to the address of the Service,
	// unless expose, extraEnv or envFrom give one.
	// +optional
	// +kubebuilder:default=true
	EnvUseClusterAccessURL *bool `json:"envUseClusterAccessURL,omitempty"`
	// OperatorAccess is the operator's own account in this Coder.
	// +optional
	// +kubebuilder:default={}
	OperatorAccess OperatorAccessSpec `json:"operatorAccess,omitzero"`
	// InitialAdmin is the account with which a person logs in first.
	// +optional
	// +kubebuilder:default={}
	InitialAdmin InitialAdminSpec `json:"initialAdmin,omitzero"`
	// LicenseSecretRef names the Secret that holds the license of Coder. Where it
	// changes, the license that it held before is removed from Coder; where it is
	// removed, so is the license. Licenses that others added stay.
	// +optional
	LicenseSecretRef *SecretKeyReference `json:"licenseSecretRef,omitempty"`
	// ProvisionerPSKSecretRef names the Secret that holds the pre-shared key with
	// which external provisioners log in that have no key of their own.
	// +optional
	ProvisionerPSKSecretRef *PSKSecretReference `json:"provisionerPSKSecretRef,omitempty"`
	// RBAC is what the ServiceAccount may do, with which Coder's built-in
	// provisioners make workspaces.
	// +optional
	// +kubebuilder:default={}
	RBAC RBACSpec `json:"rbac,omitzero"`
	// Identity says as whom callers of the aggregated API act in this Coder. By default
	// nobody is mapped.
	// +optional
	Identity IdentitySpec `json:"identity,omitzero"`
}

// DatabaseSpec is Coder's PostgreSQL.
//
// +kubebuilder:validation:XValidation:rule="has(self.secretRef) != has(self.cloudNativePG)",message="a database is a secretRef or a cloudNativePG; give exactly one"
type DatabaseSpec struct {
	// SecretRef names the Secret that holds the address of the database, as
	// postgres://user:password@host:port/name.
	// +optional
	SecretRef *DatabaseSecretReference `json:"secretRef,omitempty"`
	// CloudNativePG names a Cluster of CloudNativePG in the same namespace.
	// +optional
	CloudNativePG *CloudNativePGReference `json:"cloudNativePG,omitempty"`
}

// DatabaseSecretReference names a key of a Secret in the same namespace.
type DatabaseSecretReference struct {
	// Name of the Secret.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	Name string `json:"name"`
	// Key in the Secret that holds the address.
	// +optional
	// +kubebuilder:default=url
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="must be a key of a Secret: letters, digits, dashes, underscores and dots"
	Key string `json:"key,omitempty"`
}

// CloudNativePGReference names a Cluster of CloudNativePG.
type CloudNativePGReference struct {
	// ClusterName is the name of the Cluster. Its Secret <name>-app is used.
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a Cluster of CloudNativePG: lower case letters, digits and dashes, a letter or digit at both ends"
	ClusterName string `json:"clusterName"`
}

// PSKSecretReference names a key of a Secret in the same namespace.
type PSKSecretReference struct {
	// Name of the Secret.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	Name string `json:"name"`
	// Key in the Secret that holds the pre-shared key.
	// +optional
	// +kubebuilder:default=psk
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="must be a key of a Secret: letters, digits, dashes, underscores and dots"
	Key string `json:"key,omitempty"`
}

// OperatorAccessSpec is the operator's own account in a Coder deployment.
type OperatorAccessSpec struct {
	// Disabled makes this control plane invisible to the operator's own calls: no
	// token is made or read, an existing one is revoked and its Secret deleted,
	// and its workspaces and templates are not served by the aggregated API.
	// +optional
	// +kubebuilder:default=false
	Disabled bool `json:"disabled,omitempty"`
	// TokenSecretRef is a token of Coder that you made yourself, of a user with
	// the role owner. With it the operator makes no account and no token, and cannot
	// renew yours: the condition OperatorAccess has the reason TokenExpiring when
	// the last third of its life begins, at most 14 days before its end.
	// +optional
	TokenSecretRef *TokenSecretReference `json:"tokenSecretRef,omitempty"`
	// GeneratedTokenSecretName is the name of the Secret in which the operator
	// keeps the token that it made. Unset, it is <name>-operator-token.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	GeneratedTokenSecretName string `json:"generatedTokenSecretName,omitempty"`
}

// TokenSecretReference names a key of a Secret in the same namespace.
type TokenSecretReference struct {
	// Name of the Secret.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	Name string `json:"name"`
	// Key in the Secret that holds the token.
	// +optional
	// +kubebuilder:default=token
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="must be a key of a Secret: letters, digits, dashes, underscores and dots"
	Key string `json:"key,omitempty"`
}

// InitialAdminSpec is the account with which a person logs in first. Its
// username, email and password stand in Secret <name>-initial-admin.
type InitialAdminSpec struct {
	// Disabled makes no such account.
	// +optional
	// +kubebuilder:default=false
	Disabled bool `json:"disabled,omitempty"`
	// Username of the account.
	// +optional
	// +kubebuilder:default=admin
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*$')",message="must consist of letters, digits and single dashes between them, as all names of users in Coder"
	// +kubebuilder:validation:XValidation:rule="!(self in ['new', 'create'])",message="is a name that Coder keeps for itself; choose another"
	Username string `json:"username,omitempty"`
	// Email of the account.
	// +optional
	// +kubebuilder:default="admin@coder-k8s.invalid"
	// +kubebuilder:validation:MaxLength=320
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^@ ]+@[^@ ]+$')",message="must be an email address, for example admin@example.com"
	Email string `json:"email,omitempty"`
}

// SecretKeyReference names a key of a Secret in the same namespace.
type SecretKeyReference struct {
	// Name of the Secret.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	Name string `json:"name"`
	// Key in the Secret. Unset, it is "license".
	// +optional
	// +kubebuilder:default=license
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="must be a key of a Secret: letters, digits, dashes, underscores and dots"
	Key string `json:"key,omitempty"`
}

// CoderControlPlaneStatus is the deployment as it was last seen.
type CoderControlPlaneStatus struct {
	WorkloadStatus `json:",inline"`

	// URL is where Coder is reached inside the cluster.
	// +optional
	URL string `json:"url,omitempty"`
	// AccessURL is where Coder is told that it is reached, where the operator tells
	// it.
	// +optional
	AccessURL string `json:"accessURL,omitempty"`
	// Version of the Coder that answered last, for example v2.30.0.
	// +optional
	Version string `json:"version,omitempty"`
	// Image is the container image of the Coder that answers: that of spec.image, or
	// of a Deployment taken over, from the moment its rollout is complete and Coder
	// answers. Provisioners and workspace proxies without an image of their own run it.
	// +optional
	Image string `json:"image,omitempty"`
	// OperatorTokenSecretRef names the Secret key that holds the operator's token.
	// +optional
	OperatorTokenSecretRef *TokenSecretReference `json:"operatorTokenSecretRef,omitempty"`
	// OperatorAccessReady says that Coder accepts the token.
	// +optional
	OperatorAccessReady bool `json:"operatorAccessReady,omitempty"`
	// OperatorTokenExpiresAt is when that token expires. It is unset if Coder does not
	// tell that about a token of spec.operatorAccess.tokenSecretRef.
	// +optional
	OperatorTokenExpiresAt *metav1.Time `json:"operatorTokenExpiresAt,omitempty"`
	// ObjectNamePrefix stands in front of the names of this control plane's
	// templates and workspaces in the aggregated API. It is empty for the first
	// control plane of a namespace and <name>. for each further one. It is written
	// once and never changes.
	// +optional
	ObjectNamePrefix *string `json:"objectNamePrefix,omitempty"`
	// EverServed is true once Coder has accepted the operator's token, and never
	// becomes false again. While it is false, the aggregated API leaves the templates
	// and workspaces of this control plane out of lists, with a warning. Afterwards a
	// list fails rather than leave them out.
	// +optional
	EverServed *bool `json:"everServed,omitempty"`

	// LicenseTier is what the licenses in Coder amount to.
	// +optional
	// +kubebuilder:validation:Enum=none;trial;enterprise;premium;unknown
	LicenseTier string `json:"licenseTier,omitempty"`
	// LicenseExpiresAt is when the license of spec.licenseSecretRef runs out.
	// +optional
	LicenseExpiresAt *metav1.Time `json:"licenseExpiresAt,omitempty"`
	// LicenseLastApplied is when the license was last added to Coder.
	// +optional
	LicenseLastApplied *metav1.Time `json:"licenseLastApplied,omitempty"`
	// LicenseLastAppliedHash identifies that license: the SHA-256 of its text.
	// +optional
	LicenseLastAppliedHash string `json:"licenseLastAppliedHash,omitempty"`
	// LicenseUUIDs are the licenses in Coder that the operator added.
	// +optional
	// +listType=set
	LicenseUUIDs []string `json:"licenseUUIDs,omitempty"`
	// ExternalProvisionerDaemonsEntitlement says whether the licenses allow external
	// provisioners.
	// +optional
	// +kubebuilder:validation:Enum=entitled;grace_period;not_entitled;unknown
	ExternalProvisionerDaemonsEntitlement string `json:"externalProvisionerDaemonsEntitlement,omitempty"`
	// WorkspaceProxyEntitlement says whether they allow workspace proxies.
	// +optional
	// +kubebuilder:validation:Enum=entitled;grace_period;not_entitled;unknown
	WorkspaceProxyEntitlement string `json:"workspaceProxyEntitlement,omitempty"`
	// HighAvailabilityEntitlement says whether they allow more than one replica.
	// +optional
	// +kubebuilder:validation:Enum=entitled;grace_period;not_entitled;unknown
	HighAvailabilityEntitlement string `json:"highAvailabilityEntitlement,omitempty"`
}
