package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CoderControlPlane is one Coder deployment (coderd) and all that it needs in
// its namespace: Deployment, Service, ServiceAccount, the rights that Coder's
// workspaces need, and the operator's own access to Coder's API.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
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
// +kubebuilder:validation:XValidation:rule="!(has(self.operatorAccess) && has(self.operatorAccess.disabled) && self.operatorAccess.disabled && has(self.licenseSecretRef))",message="spec.licenseSecretRef: a license is applied through Coder's API, which spec.operatorAccess.disabled forbids; enable operator access or remove the license"
type CoderControlPlaneSpec struct {
	// Image is the container image of Coder.
	// +optional
	// +kubebuilder:default="ghcr.io/coder/coder:v2.30.0"
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image,omitempty"`
	// ImagePullPolicy says when the kubelet fetches the image. Empty means the
	// default of Kubernetes: Always for the tag latest, IfNotPresent otherwise.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	// ImagePullSecrets name Secrets in the same namespace with the credentials
	// for the image's registry.
	// +optional
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// Replicas is the number of coderd pods. More than one needs a license with
	// high availability.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
	// Service is how coderd is reached inside the cluster.
	// +optional
	// +kubebuilder:default={}
	Service ServiceSpec `json:"service,omitzero"`
	// ExtraArgs are appended to the arguments of coderd, after the listen address.
	// +optional
	ExtraArgs []string `json:"extraArgs,omitempty"`
	// ExtraEnv is appended to the environment of coderd. CODER_PG_CONNECTION_URL,
	// the address of its PostgreSQL database, belongs here (from a Secret) or in
	// envFrom. A name that the operator sets itself is replaced by the one given
	// here.
	// +optional
	// +listType=map
	// +listMapKey=name
	ExtraEnv []corev1.EnvVar `json:"extraEnv,omitempty"`
	// EnvFrom takes the environment of coderd from ConfigMaps and Secrets.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(e, !(has(e.configMapRef) && has(e.secretRef)))",message="each entry takes its variables from a configMapRef or from a secretRef, not from both; write two entries"
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`
	// EnvUseClusterAccessURL sets CODER_ACCESS_URL to the address of the Service,
	// unless extraEnv or envFrom set it.
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
	// LicenseSecretRef names the Secret that holds the license of Coder. This
	// version does not apply it, and says so in the condition LicenseApplied.
	// +optional
	LicenseSecretRef *SecretKeyReference `json:"licenseSecretRef,omitempty"`

	// ServiceAccount is the identity of coderd's pods, with which its built-in
	// provisioners create workspaces.
	// +optional
	// +kubebuilder:default={}
	ServiceAccount ServiceAccountSpec `json:"serviceAccount,omitzero"`
	// RBAC is what that identity may do.
	// +optional
	// +kubebuilder:default={}
	RBAC RBACSpec `json:"rbac,omitzero"`

	// Resources are the requests and limits of the coderd container.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// SecurityContext replaces the container's security context. Unset, it is
	// that of Coder's own chart: user and group 1000, not root, no privilege
	// escalation, seccomp RuntimeDefault.
	// +optional
	SecurityContext *corev1.SecurityContext `json:"securityContext,omitempty"`
	// PodSecurityContext is the security context of the pod.
	// +optional
	PodSecurityContext *corev1.PodSecurityContext `json:"podSecurityContext,omitempty"`
	// TLS makes coderd itself serve TLS on port 8443, besides HTTP on 8080.
	// +optional
	// +kubebuilder:default={}
	TLS TLSSpec `json:"tls,omitzero"`
	// ReadinessProbe decides whether a pod gets traffic.
	// +optional
	// +kubebuilder:default={enabled: true}
	ReadinessProbe ProbeSpec `json:"readinessProbe,omitzero"`
	// LivenessProbe decides whether a pod is restarted.
	// +optional
	// +kubebuilder:default={enabled: false}
	LivenessProbe ProbeSpec `json:"livenessProbe,omitzero"`
	// Expose makes Coder reachable from outside the cluster. This version does not
	// act on it, and says so in the condition Exposed.
	// +optional
	Expose *ExposeSpec `json:"expose,omitempty"`
	// Volumes are added to the pod.
	// +optional
	Volumes []corev1.Volume `json:"volumes,omitempty"`
	// VolumeMounts are added to the coderd container.
	// +optional
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`
	// Certs are certificate authorities that coderd trusts besides the system's.
	// +optional
	// +kubebuilder:default={}
	Certs CertsSpec `json:"certs,omitzero"`
	// NodeSelector restricts the nodes of the pods.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Tolerations of the pods.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// Affinity of the pods.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// TopologySpreadConstraints of the pods.
	// +optional
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
}

// ServiceSpec is the Service in front of coderd.
type ServiceSpec struct {
	// Type of the Service.
	// +optional
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`
	// Port on which the Service serves HTTP, or HTTPS where it is 443 and TLS is
	// on.
	// +optional
	// +kubebuilder:default=80
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// Annotations of the Service, for example for a load balancer.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
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
	// the role owner. With it the operator makes no account and no token.
	// +optional
	TokenSecretRef *TokenSecretReference `json:"tokenSecretRef,omitempty"`
	// GeneratedTokenSecretName is the name of the Secret in which the operator
	// keeps the token that it made. Unset, it is <name>-operator-token.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	GeneratedTokenSecretName string `json:"generatedTokenSecretName,omitempty"`
}

// TokenSecretReference names a key of a Secret in the same namespace.
type TokenSecretReference struct {
	// Name of the Secret.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Key in the Secret that holds the token.
	// +optional
	// +kubebuilder:default=token
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
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9]+(?:-[a-zA-Z0-9]+)*$`
	Username string `json:"username,omitempty"`
	// Email of the account.
	// +optional
	// +kubebuilder:default="admin@coder-k8s.invalid"
	// +kubebuilder:validation:Pattern=`^[^@\s]+@[^@\s]+$`
	Email string `json:"email,omitempty"`
}

// SecretKeyReference names a key of a Secret in the same namespace.
type SecretKeyReference struct {
	// Name of the Secret.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Key in the Secret. Unset, it is "license".
	// +optional
	// +kubebuilder:default=license
	Key string `json:"key,omitempty"`
}

// ServiceAccountSpec is the identity of coderd's pods.
type ServiceAccountSpec struct {
	// DisableCreate uses an existing ServiceAccount instead of making one.
	// +optional
	// +kubebuilder:default=false
	DisableCreate bool `json:"disableCreate,omitempty"`
	// Name of the ServiceAccount. Unset, it is the name of the control plane.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// Annotations of the ServiceAccount, for example of a cloud's workload identity.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// Labels of the ServiceAccount.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
}

// RBACSpec is what coderd's ServiceAccount may do.
type RBACSpec struct {
	// WorkspacePerms lets coderd make pods and volume claims for workspaces.
	// +optional
	// +kubebuilder:default=true
	WorkspacePerms *bool `json:"workspacePerms,omitempty"`
	// EnableDeployments lets it make Deployments too.
	// +optional
	// +kubebuilder:default=true
	EnableDeployments *bool `json:"enableDeployments,omitempty"`
	// ExtraRules are added. The operator can only grant what it holds itself.
	// +optional
	ExtraRules []rbacv1.PolicyRule `json:"extraRules,omitempty"`
	// WorkspaceNamespaces are further namespaces in which the same is granted.
	// +optional
	// +listType=set
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	WorkspaceNamespaces []string `json:"workspaceNamespaces,omitempty"`
}

// TLSSpec makes coderd serve TLS.
type TLSSpec struct {
	// SecretNames are Secrets of type kubernetes.io/tls in the same namespace.
	// +optional
	// +listType=set
	SecretNames []string `json:"secretNames,omitempty"`
}

// ProbeSpec is a health check of coderd at /healthz.
type ProbeSpec struct {
	// Enabled switches the probe. Unset, a readiness probe is on and a liveness
	// probe is off.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// InitialDelaySeconds before the first check.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	InitialDelaySeconds int32 `json:"initialDelaySeconds,omitempty"`
	// PeriodSeconds between checks.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	PeriodSeconds *int32 `json:"periodSeconds,omitempty"`
	// TimeoutSeconds of one check.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
	// SuccessThreshold is how many checks in a row must pass. A liveness probe
	// allows only 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	SuccessThreshold *int32 `json:"successThreshold,omitempty"`
	// FailureThreshold is how many checks in a row must fail.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	FailureThreshold *int32 `json:"failureThreshold,omitempty"`
}

// ExposeSpec makes Coder reachable from outside the cluster in one of two ways.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.ingress) && has(self.gateway))",message="spec.expose takes an ingress or a gateway, not both"
type ExposeSpec struct {
	// Ingress exposes Coder through an Ingress.
	// +optional
	Ingress *IngressSpec `json:"ingress,omitempty"`
	// Gateway exposes Coder through an HTTPRoute of the Gateway API.
	// +optional
	Gateway *GatewaySpec `json:"gateway,omitempty"`
}

// IngressSpec is an Ingress in front of Coder.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.tls) && has(self.tls.wildcardSecretName) && size(self.tls.wildcardSecretName) > 0) || (has(self.wildcardHost) && size(self.wildcardHost) > 0)",message="tls.wildcardSecretName needs wildcardHost"
type IngressSpec struct {
	// ClassName of the Ingress.
	// +optional
	ClassName *string `json:"className,omitempty"`
	// Host under which Coder is reached.
	// +kubebuilder:validation:MinLength=1
	Host string `json:"host"`
	// WildcardHost under which workspace applications are reached.
	// +optional
	WildcardHost string `json:"wildcardHost,omitempty"`
	// Annotations of the Ingress.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// TLS of the Ingress.
	// +optional
	TLS *IngressTLSSpec `json:"tls,omitempty"`
}

// IngressTLSSpec names the certificates of an Ingress.
type IngressTLSSpec struct {
	// SecretName holds the certificate of the host.
	// +optional
	SecretName string `json:"secretName,omitempty"`
	// WildcardSecretName holds the certificate of the wildcard host.
	// +optional
	WildcardSecretName string `json:"wildcardSecretName,omitempty"`
}

// GatewaySpec is an HTTPRoute in front of Coder.
type GatewaySpec struct {
	// Host under which Coder is reached.
	// +kubebuilder:validation:MinLength=1
	Host string `json:"host"`
	// WildcardHost under which workspace applications are reached.
	// +optional
	WildcardHost string `json:"wildcardHost,omitempty"`
	// ParentRefs are the Gateways that the route attaches to.
	// +kubebuilder:validation:MinItems=1
	ParentRefs []GatewayParentReference `json:"parentRefs"`
}

// GatewayParentReference names a Gateway.
type GatewayParentReference struct {
	// Name of the Gateway.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Namespace of the Gateway. Unset, it is that of the control plane.
	// +optional
	Namespace *string `json:"namespace,omitempty"`
	// SectionName is the listener of the Gateway.
	// +optional
	SectionName *string `json:"sectionName,omitempty"`
}

// CertsSpec are certificate authorities that coderd trusts.
type CertsSpec struct {
	// Secrets that hold one certificate each.
	// +optional
	Secrets []CertSecretSelector `json:"secrets,omitempty"`
}

// CertSecretSelector names a key of a Secret that holds a PEM certificate.
type CertSecretSelector struct {
	// Name of the Secret.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Key in the Secret.
	// +kubebuilder:validation:MinLength=1
	Key string `json:"key"`
}

// CoderControlPlaneStatus is the deployment as it was last seen.
type CoderControlPlaneStatus struct {
	// ObservedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase is Ready or Pending: the condition Ready in one word.
	// +optional
	Phase ControlPlanePhase `json:"phase,omitempty"`
	// Conditions: Ready, Reconciling and Stalled as kstatus reads them, and the
	// parts of which Ready is made.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Replicas is the number of coderd pods.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// ReadyReplicas is the number of coderd pods that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// URL is where Coder is reached inside the cluster.
	// +optional
	URL string `json:"url,omitempty"`
	// Version of the Coder that answered last, for example v2.30.0.
	// +optional
	Version string `json:"version,omitempty"`
	// OperatorTokenSecretRef names the Secret key that holds the operator's token.
	// +optional
	OperatorTokenSecretRef *TokenSecretReference `json:"operatorTokenSecretRef,omitempty"`
	// OperatorAccessReady says that Coder accepts the token.
	// +optional
	OperatorAccessReady bool `json:"operatorAccessReady,omitempty"`
	// OperatorTokenExpiresAt is when that token runs out, where the operator made
	// it.
	// +optional
	OperatorTokenExpiresAt *metav1.Time `json:"operatorTokenExpiresAt,omitempty"`
	// ObjectNamePrefix stands in front of the names of this control plane's
	// templates and workspaces in the aggregated API. It is empty for the first
	// control plane of a namespace and <name>. for each further one. It is written
	// once and never changes.
	// +optional
	ObjectNamePrefix *string `json:"objectNamePrefix,omitempty"`
}

// ControlPlanePhase is the condition Ready in one word.
//
// +kubebuilder:validation:Enum=Pending;Ready
type ControlPlanePhase string

// The phases of a control plane.
const (
	PhasePending ControlPlanePhase = "Pending"
	PhaseReady   ControlPlanePhase = "Ready"
)
