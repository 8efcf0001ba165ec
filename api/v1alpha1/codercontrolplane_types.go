package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CoderControlPlane is one Coder deployment (coderd) with the objects that it needs in its
// namespace: the Deployment, the Service, the ServiceAccount, the RBAC permissions for Coder's
// workspaces, and the operator's access to Coder's API.
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
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name: must have at most 63 characters, because it becomes the name of a Service and the value of a label",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.contains('.')",message="metadata.name: must not contain a dot, because it becomes the name of a Service and a part of the names of workspaces; use a dash",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]')",message="metadata.name: must begin with a letter, because it becomes the name of a Service",fieldPath=".metadata"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.operatorAccess.generatedTokenSecretName) || !(self.spec.operatorAccess.generatedTokenSecretName in [self.metadata.name + '-initial-admin', self.metadata.name + '-operator-credentials'])",message="spec.operatorAccess.generatedTokenSecretName: is the name of a Secret that the operator writes for something else; choose another",fieldPath=".spec.operatorAccess.generatedTokenSecretName"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.operatorTokenSecretRef) || (has(self.spec.operatorAccess) && has(self.spec.operatorAccess.generatedTokenSecretName) && size(self.spec.operatorAccess.generatedTokenSecretName) > 0 ? self.spec.operatorAccess.generatedTokenSecretName : size(self.metadata.name) <= 48 ? self.metadata.name + '-operator-token' : '.') == (has(oldSelf.spec.operatorAccess) && has(oldSelf.spec.operatorAccess.generatedTokenSecretName) && size(oldSelf.spec.operatorAccess.generatedTokenSecretName) > 0 ? oldSelf.spec.operatorAccess.generatedTokenSecretName : size(self.metadata.name) <= 48 ? self.metadata.name + '-operator-token' : '.')",message="spec.operatorAccess.generatedTokenSecretName: cannot change while status.operatorTokenSecretRef is set; set spec.operatorAccess.disabled until the operator has removed its token, or create a new CoderControlPlane and delete this one",fieldPath=".spec.operatorAccess.generatedTokenSecretName"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.restore) && !has(oldSelf.status.version) && !has(oldSelf.status.image) || !has(self.spec.bootstrap) || has(oldSelf.spec.bootstrap) && self.spec.bootstrap == oldSelf.spec.bootstrap || has(self.spec.database) && (!has(oldSelf.spec.database) || self.spec.database != oldSelf.spec.database) && (!has(oldSelf.status.restore) || !has(self.spec.bootstrap.fromBackup) || oldSelf.status.restore.backup != (has(self.spec.bootstrap.fromBackup.files) ? (has(self.spec.bootstrap.fromBackup.files.s3) ? 's3://' + self.spec.bootstrap.fromBackup.files.s3.bucket + (has(self.spec.bootstrap.fromBackup.files.s3.prefix) ? '/' + self.spec.bootstrap.fromBackup.files.s3.prefix + '/' : '/') : self.spec.bootstrap.fromBackup.files.persistentVolumeClaim.claimName + '/') + self.spec.bootstrap.fromBackup.files.directory : has(self.spec.bootstrap.fromBackup.name) ? self.spec.bootstrap.fromBackup.name : '.'))",message="spec.bootstrap: cannot be added or changed, because Coder already uses the database; change spec.database to an empty one at the same time, with a backup that was not restored before, or remove the field",fieldPath=".spec.bootstrap"
type CoderControlPlane struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired state of the deployment.
	// +optional
	// +kubebuilder:default={}
	Spec CoderControlPlaneSpec `json:"spec,omitzero"`
	// Status is the observed state of the deployment.
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

// CoderControlPlaneSpec is the desired state of a Coder deployment.
//
// +kubebuilder:validation:XValidation:rule="!has(self.service) || !has(self.service.enabled) || self.service.enabled || (has(self.operatorAccess) && has(self.operatorAccess.disabled) && self.operatorAccess.disabled)",message="spec.service.enabled: must not be false, because the operator calls Coder through its Service; keep the Service, or set spec.operatorAccess.disabled to true as well"
// +kubebuilder:validation:XValidation:rule="!has(self.database) || !has(self.extraEnv) || !self.extraEnv.exists(e, e.name == 'CODER_PG_CONNECTION_URL')",message="spec.database: CODER_PG_CONNECTION_URL in spec.extraEnv names a database too; keep one of them"
// +kubebuilder:validation:XValidation:rule="!(has(self.operatorAccess) && has(self.operatorAccess.disabled) && self.operatorAccess.disabled && has(self.licenseSecretRef))",message="spec.licenseSecretRef: a license is applied through Coder's API, which spec.operatorAccess.disabled forbids; enable operator access or remove the license"
// +kubebuilder:validation:XValidation:rule="!has(self.provisionerPSKSecretRef) || !has(self.extraEnv) || !self.extraEnv.exists(e, e.name == 'CODER_PROVISIONER_DAEMON_PSK')",message="spec.provisionerPSKSecretRef: CODER_PROVISIONER_DAEMON_PSK in spec.extraEnv is a pre-shared key too; keep one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.podTemplate) || !has(self.podTemplate.spec) || !has(self.podTemplate.spec.containers) || self.podTemplate.spec.containers.all(c, c.name == 'coder' || (has(c.image) && size(c.image) > 0))",message="spec.podTemplate.spec.containers: a container that is added needs an image; the container of Coder, into which an entry is merged, has the name coder"
type CoderControlPlaneSpec struct {
	// Image is the container image of Coder. Its tag names the version, which decides about a change:
	// an older minor version, another major version, and an image without a version in its tag are
	// refused (condition VersionAllowed). Defaults to ghcr.io/coder/coder:v2.34.8.
	// +optional
	// +kubebuilder:default="ghcr.io/coder/coder:v2.34.8"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.contains(' ')",message="must be an image without blanks, for example ghcr.io/coder/coder:v2.34.8"
	Image string `json:"image,omitempty"`

	WorkloadSpec `json:",inline"`
	ServingSpec  `json:",inline"`

	// Database configures Coder's PostgreSQL database. Alternatively, set CODER_PG_CONNECTION_URL
	// in extraEnv or envFrom.
	// +optional
	Database *DatabaseSpec `json:"database,omitempty"`
	// Bootstrap describes how the database is filled before Coder starts with it for the first time. After
	// that it can be removed, and added or changed only together with database, in one update: then the
	// backup is restored into the new database, and the pods use the old one until that is complete.
	// +optional
	Bootstrap *BootstrapSpec `json:"bootstrap,omitempty"`
	// Upgrade describes what happens when the image becomes another minor version of Coder: the old pods
	// stop, whatever spec.deployment.strategy is, a backup is made, one pod migrates the database, and the
	// old image comes back if that fails.
	// +optional
	Upgrade *UpgradeSpec `json:"upgrade,omitempty"`
	// EnvUseClusterAccessURL sets CODER_ACCESS_URL to the URL of the Service if none of expose,
	// extraEnv and envFrom sets the access URL. Defaults to true.
	// +optional
	// +kubebuilder:default=true
	EnvUseClusterAccessURL *bool `json:"envUseClusterAccessURL,omitempty"`
	// OperatorAccess configures the operator's own account in this Coder.
	// +optional
	// +kubebuilder:default={}
	OperatorAccess OperatorAccessSpec `json:"operatorAccess,omitzero"`
	// InitialAdmin configures the account for the first human login.
	// +optional
	// +kubebuilder:default={}
	InitialAdmin InitialAdminSpec `json:"initialAdmin,omitzero"`
	// LicenseSecretRef refers to the Secret that contains the license of Coder. If the license in
	// the Secret changes, the operator adds the new license to Coder and removes the previous one.
	// If this field is removed, the operator removes the license from Coder. Licenses that others
	// added are never removed.
	// +optional
	LicenseSecretRef *SecretKeyReference `json:"licenseSecretRef,omitempty"`
	// ProvisionerPSKSecretRef refers to the Secret that contains the pre-shared key for external
	// provisioners that have no provisioner key.
	// +optional
	ProvisionerPSKSecretRef *PSKSecretReference `json:"provisionerPSKSecretRef,omitempty"`
	// RBAC configures the permissions of the ServiceAccount, which Coder's built-in provisioners
	// use to create workspaces.
	// +optional
	// +kubebuilder:default={}
	RBAC RBACSpec `json:"rbac,omitzero"`
	// Identity maps callers of the aggregated API to users of this Coder. By default no caller is
	// mapped.
	// +optional
	Identity IdentitySpec `json:"identity,omitzero"`
	// TemplateTests configures the CoderTemplateTests of this control plane. Without it no test runs.
	// +optional
	TemplateTests *TemplateTestsSpec `json:"templateTests,omitempty"`
}

// TemplateTestsSpec configures the CoderTemplateTests of a control plane.
type TemplateTestsSpec struct {
	// OwnerUsername is the Coder user that owns the workspaces of the tests. It must be active, and have
	// no role other than member: Coder passes a token of the owner, its SSH key and its tokens of external
	// services to the Terraform code of the template. Anyone with permission to create a
	// CoderTemplateTest can run such code, and keep a token. So use an account that no person uses, and
	// never give it a role. Tests use only templates that this user may use.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*$')",message="must consist of letters, digits and single dashes between them, as all names of users in Coder"
	OwnerUsername string `json:"ownerUsername"`
	// CreateOwner lets the operator create the user, as a member of the default organization, and use no
	// other user of that name. Nobody knows the password of a user that the operator creates. The user
	// is not deleted with the control plane or with this field. Defaults to false.
	// +optional
	CreateOwner bool `json:"createOwner,omitempty"`
	// MaxConcurrent is how many tests may have a workspace at the same time. Further tests wait.
	// Defaults to 2.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	MaxConcurrent int32 `json:"maxConcurrent,omitempty"`
}

// DatabaseSpec configures Coder's PostgreSQL database.
//
// +kubebuilder:validation:XValidation:rule="has(self.secretRef) != has(self.cloudNativePG)",message="a database is a secretRef or a cloudNativePG; give exactly one"
type DatabaseSpec struct {
	// SecretRef refers to the Secret that contains the connection URL of the database, in the form
	// postgres://user:password@host:port/name.
	// +optional
	SecretRef *DatabaseSecretReference `json:"secretRef,omitempty"`
	// CloudNativePG refers to a Cluster of CloudNativePG in the same namespace.
	// +optional
	CloudNativePG *CloudNativePGReference `json:"cloudNativePG,omitempty"`
}

// DatabaseSecretReference refers to a key of a Secret in the same namespace.
type DatabaseSecretReference struct {
	// Name is the name of the Secret.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	Name string `json:"name"`
	// Key is the key in the Secret that contains the connection URL. Defaults to url.
	// +optional
	// +kubebuilder:default=url
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="must be a key of a Secret: letters, digits, dashes, underscores and dots"
	Key string `json:"key,omitempty"`
}

// CloudNativePGReference refers to a Cluster of CloudNativePG.
type CloudNativePGReference struct {
	// ClusterName is the name of the Cluster. The operator uses the Secret <name>-app of the
	// Cluster.
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a Cluster of CloudNativePG: lower case letters, digits and dashes, a letter or digit at both ends"
	ClusterName string `json:"clusterName"`
}

// PSKSecretReference refers to a key of a Secret in the same namespace.
type PSKSecretReference struct {
	// Name is the name of the Secret.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	Name string `json:"name"`
	// Key is the key in the Secret that contains the pre-shared key. Defaults to psk.
	// +optional
	// +kubebuilder:default=psk
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="must be a key of a Secret: letters, digits, dashes, underscores and dots"
	Key string `json:"key,omitempty"`
}

// OperatorAccessSpec configures the operator's own account in a Coder deployment.
type OperatorAccessSpec struct {
	// Disabled disables the operator's access to Coder's API: the operator neither creates nor
	// reads a token, it revokes its existing token and deletes the token's Secret, and the
	// aggregated API does not serve the templates and workspaces of this control plane. Defaults to
	// false.
	// +optional
	// +kubebuilder:default=false
	Disabled bool `json:"disabled,omitempty"`
	// TokenSecretRef refers to an API token of Coder that you created for a user with the role
	// owner. The operator then creates no account and no token of its own. It cannot renew your
	// token: the condition OperatorAccess has the reason TokenExpiring during the last third of the
	// token's lifetime, but at the earliest 14 days before the token expires.
	// +optional
	TokenSecretRef *TokenSecretReference `json:"tokenSecretRef,omitempty"`
	// GeneratedTokenSecretName is the name of the Secret in which the operator stores the token
	// that it created. Defaults to <name>-operator-token. It cannot change while
	// status.operatorTokenSecretRef is set.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	GeneratedTokenSecretName string `json:"generatedTokenSecretName,omitempty"`
}

// TokenSecretReference refers to a key of a Secret in the same namespace.
type TokenSecretReference struct {
	// Name is the name of the Secret.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	Name string `json:"name"`
	// Key is the key in the Secret that contains the token. Defaults to token.
	// +optional
	// +kubebuilder:default=token
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="must be a key of a Secret: letters, digits, dashes, underscores and dots"
	Key string `json:"key,omitempty"`
}

// InitialAdminSpec configures the account for the first human login. The operator stores its
// username, email and password in the Secret <name>-initial-admin.
type InitialAdminSpec struct {
	// Disabled disables the creation of the account. Defaults to false.
	// +optional
	// +kubebuilder:default=false
	Disabled bool `json:"disabled,omitempty"`
	// Username is the username of the account. Defaults to admin.
	// +optional
	// +kubebuilder:default=admin
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*$')",message="must consist of letters, digits and single dashes between them, as all names of users in Coder"
	// +kubebuilder:validation:XValidation:rule="!(self in ['new', 'create'])",message="is a name that Coder keeps for itself; choose another"
	Username string `json:"username,omitempty"`
	// Email is the email address of the account. Defaults to admin@coder-k8s.invalid.
	// +optional
	// +kubebuilder:default="admin@coder-k8s.invalid"
	// +kubebuilder:validation:MaxLength=320
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^@ ]+@[^@ ]+$')",message="must be an email address, for example admin@example.com"
	Email string `json:"email,omitempty"`
}

// SecretKeyReference refers to a key of a Secret in the same namespace.
type SecretKeyReference struct {
	// Name is the name of the Secret.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	Name string `json:"name"`
	// Key is the key in the Secret. Defaults to license.
	// +optional
	// +kubebuilder:default=license
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="must be a key of a Secret: letters, digits, dashes, underscores and dots"
	Key string `json:"key,omitempty"`
}

// CoderControlPlaneStatus is the observed state of a Coder deployment.
type CoderControlPlaneStatus struct {
	WorkloadStatus `json:",inline"`

	// URL is the URL of Coder inside the cluster.
	// +optional
	URL string `json:"url,omitempty"`
	// AccessURL is the access URL that Coder is configured with. It is empty if the operator does
	// not know it, for example because it comes from a Secret or ConfigMap.
	// +optional
	AccessURL string `json:"accessURL,omitempty"`
	// Version is the version of Coder from its last response, for example v2.30.0. While pods of two
	// versions run, it is the newer one.
	// +optional
	Version string `json:"version,omitempty"`
	// Image is the container image of the running Coder. It is updated when a rollout is complete
	// and Coder responds. For a Deployment that was taken over it is the image of that Deployment.
	// Provisioners and workspace proxies without an image in their spec use this image.
	// +optional
	Image string `json:"image,omitempty"`
	// OperatorTokenSecretRef refers to the key of the Secret that contains the operator's token.
	// +optional
	OperatorTokenSecretRef *TokenSecretReference `json:"operatorTokenSecretRef,omitempty"`
	// OperatorAccessReady is true if Coder accepts the operator's token.
	// +optional
	OperatorAccessReady bool `json:"operatorAccessReady,omitempty"`
	// OperatorTokenExpiresAt is the time when the operator's token expires. It is unset if Coder
	// does not return the expiry of the token from spec.operatorAccess.tokenSecretRef.
	// +optional
	OperatorTokenExpiresAt *metav1.Time `json:"operatorTokenExpiresAt,omitempty"`
	// ObjectNamePrefix is the prefix of the names of this control plane's templates and workspaces
	// in the aggregated API. It is empty for the first control plane of a namespace, and "<name>."
	// for every other one. It is set once and never changes.
	// +optional
	ObjectNamePrefix *string `json:"objectNamePrefix,omitempty"`
	// EverServed is true if Coder has ever accepted the operator's token. It never changes back to
	// false. While it is false, lists of the aggregated API omit the templates and workspaces of
	// this control plane, with a warning. Afterwards a list fails if it would have to omit them.
	// +optional
	EverServed *bool `json:"everServed,omitempty"`
	// IncompleteObjects is the number of templates, workspaces and users that Kubernetes could not
	// store, or not completely. The condition Truncated of an object lists what is left out of it. The
	// log of the operator names the objects that could not be stored, and why.
	// +optional
	IncompleteObjects int32 `json:"incompleteObjects,omitempty"`
	// WorkspaceNamespaces are the namespaces in which the permissions of spec.rbac are granted. The
	// aggregated API shows problems of the pods of workspaces in these namespaces and in the control
	// plane's own.
	// +optional
	// +listType=set
	WorkspaceNamespaces []string `json:"workspaceNamespaces,omitempty"`

	// Restore describes the backup from which the database was restored (spec.bootstrap.fromBackup).
	// +optional
	Restore *RestoreStatus `json:"restore,omitempty"`
	// Upgrade describes the upgrade to another minor version that runs, or the last one.
	// +optional
	Upgrade *UpgradeStatus `json:"upgrade,omitempty"`
	// LastExternalBackup is the last backup that the annotation coder.com/upgrade-backup named for an
	// upgrade, with the new version before it. It is not accepted again, because Coder has run since.
	// +optional
	LastExternalBackup string `json:"lastExternalBackup,omitempty"`

	// LicenseTier is the tier of the licenses in Coder: none, trial, enterprise, premium or
	// unknown.
	// +optional
	// +kubebuilder:validation:Enum=none;trial;enterprise;premium;unknown
	LicenseTier string `json:"licenseTier,omitempty"`
	// LicenseExpiresAt is the time when the license from spec.licenseSecretRef expires.
	// +optional
	LicenseExpiresAt *metav1.Time `json:"licenseExpiresAt,omitempty"`
	// LicenseLastApplied is the time when that license was last added to Coder.
	// +optional
	LicenseLastApplied *metav1.Time `json:"licenseLastApplied,omitempty"`
	// LicenseLastAppliedHash is the SHA-256 hash of the text of that license.
	// +optional
	LicenseLastAppliedHash string `json:"licenseLastAppliedHash,omitempty"`
	// LicenseUUIDs are the ids of the licenses in Coder that the operator added.
	// +optional
	// +listType=set
	LicenseUUIDs []string `json:"licenseUUIDs,omitempty"`
	// ExternalProvisionerDaemonsEntitlement is the entitlement of the licenses for external
	// provisioners.
	// +optional
	// +kubebuilder:validation:Enum=entitled;grace_period;not_entitled;unknown
	ExternalProvisionerDaemonsEntitlement string `json:"externalProvisionerDaemonsEntitlement,omitempty"`
	// WorkspaceProxyEntitlement is the entitlement of the licenses for workspace proxies.
	// +optional
	// +kubebuilder:validation:Enum=entitled;grace_period;not_entitled;unknown
	WorkspaceProxyEntitlement string `json:"workspaceProxyEntitlement,omitempty"`
	// HighAvailabilityEntitlement is the entitlement of the licenses for more than one replica.
	// +optional
	// +kubebuilder:validation:Enum=entitled;grace_period;not_entitled;unknown
	HighAvailabilityEntitlement string `json:"highAvailabilityEntitlement,omitempty"`
}
