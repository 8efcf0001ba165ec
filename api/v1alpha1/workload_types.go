package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// WorkloadSpec is what the three kinds have in common: a Deployment of Coder's
// image, and what surrounds it. It is inlined into each spec.
type WorkloadSpec struct {
	// ImagePullPolicy says when the kubelet fetches the image. Empty means the
	// default of Kubernetes: Always for the tag latest, IfNotPresent otherwise.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	// ImagePullSecrets name Secrets in the same namespace with the credentials
	// for the image's registry.
	// +optional
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// Replicas is the number of pods. It is what "kubectl scale" and a
	// HorizontalPodAutoscaler change. Where something scales the Deployment itself,
	// its number stays until this one changes. More than one pod of coderd or of a
	// proxy needs a license with high availability.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
	// Command replaces the entry point of the image, for an image that keeps the
	// coder program elsewhere. The arguments then begin with the command of coder
	// that is run.
	// +optional
	Command []string `json:"command,omitempty"`
	// Args replaces all arguments, those of the operator too.
	// +optional
	Args []string `json:"args,omitempty"`
	// ExtraArgs are appended to the arguments.
	// +optional
	ExtraArgs []string `json:"extraArgs,omitempty"`
	// ExtraEnv is appended to the environment. A name that the operator sets itself
	// is replaced by the one given here.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:XValidation:rule="self.all(e, size(e.name) > 0)",message="each variable has a name; give one"
	// +kubebuilder:validation:XValidation:rule="self.all(e, !(has(e.value) && size(e.value) > 0 && has(e.valueFrom)))",message="each variable has a value or a valueFrom, not both; remove one of them"
	// +kubebuilder:validation:XValidation:rule="self.all(e, !has(e.valueFrom) || (has(e.valueFrom.configMapKeyRef) ? 1 : 0) + (has(e.valueFrom.secretKeyRef) ? 1 : 0) + (has(e.valueFrom.fieldRef) ? 1 : 0) + (has(e.valueFrom.resourceFieldRef) ? 1 : 0) + (has(e.valueFrom.fileKeyRef) ? 1 : 0) == 1)",message="each valueFrom names exactly one source: configMapKeyRef, secretKeyRef, fieldRef, resourceFieldRef or fileKeyRef"
	ExtraEnv []corev1.EnvVar `json:"extraEnv,omitempty"`
	// EnvFrom takes the environment from ConfigMaps and Secrets. A change of their
	// content rolls the pods.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(e, has(e.configMapRef) != has(e.secretRef))",message="each entry takes its variables from a configMapRef or from a secretRef; give exactly one, and for both write two entries"
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`
	// Resources are the requests and limits of the container. Unset, they are those
	// of Coder's own chart: 2 CPUs and 4Gi, requested and as limit. {} means none.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || ['cpu', 'memory', 'ephemeral-storage'].all(k, !(k in self.requests) || !(k in self.limits) || !quantity(string(self.requests[k])).isGreaterThan(quantity(string(self.limits[k]))))",message="a request must not be above the limit of the same resource; lower the request or raise the limit"
	// +kubebuilder:validation:XValidation:rule="['cpu', 'memory', 'ephemeral-storage'].all(k, !(has(self.requests) && k in self.requests && string(self.requests[k]).startsWith('-')) && !(has(self.limits) && k in self.limits && string(self.limits[k]).startsWith('-')))",message="requests and limits must not be negative"
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// SecurityContext is merged over the defaults of the container, field by field:
	// user and group 1000, not root, no privilege escalation, no capabilities (drop:
	// [ALL]), seccomp RuntimeDefault. With the defaults Pod Security "restricted"
	// admits the pods. Pods that run without one of the defaults, because Helm or an
	// earlier version made them, get it with the next image.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!(has(self.runAsNonRoot) && self.runAsNonRoot && has(self.runAsUser) && self.runAsUser == 0)",message="runAsUser 0 is root, which runAsNonRoot forbids; choose another user, or set runAsNonRoot to false"
	// +kubebuilder:validation:XValidation:rule="!(has(self.privileged) && self.privileged && has(self.allowPrivilegeEscalation) && !self.allowPrivilegeEscalation)",message="a privileged container can always escalate; remove privileged, or set allowPrivilegeEscalation to true"
	SecurityContext *corev1.SecurityContext `json:"securityContext,omitempty"`
	// PlatformAssignedUser leaves out the default user and group 1000, for a platform
	// that assigns them, as OpenShift does with restricted-v2. What
	// spec.securityContext and spec.podSecurityContext say still holds. It is a field
	// of its own, because null in securityContext means the default.
	// +optional
	PlatformAssignedUser bool `json:"platformAssignedUser,omitempty"`
	// PodSecurityContext is the security context of the pod. It has no defaults:
	// those of the container are enough, and containers of spec.podTemplate bring
	// their own.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!(has(self.runAsNonRoot) && self.runAsNonRoot && has(self.runAsUser) && self.runAsUser == 0)",message="runAsUser 0 is root, which runAsNonRoot forbids; choose another user, or set runAsNonRoot to false"
	PodSecurityContext *corev1.PodSecurityContext `json:"podSecurityContext,omitempty"`
	// TerminationGracePeriodSeconds is how long a pod has to end. Unset, it is 60
	// for coderd and for a proxy, and 600 for provisioners, which finish their job.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`
	// Certs are certificate authorities that the container trusts besides the
	// system's.
	// +optional
	// +kubebuilder:default={}
	Certs CertsSpec `json:"certs,omitzero"`
	// Volumes are added to the pod.
	// +optional
	// +listType=map
	// +listMapKey=name
	Volumes []corev1.Volume `json:"volumes,omitempty"`
	// VolumeMounts are added to the container.
	// +optional
	// +listType=map
	// +listMapKey=mountPath
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`
	// NodeSelector restricts the nodes of the pods.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Tolerations of the pods.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// Affinity of the pods. Unset, they prefer different nodes. {} means none.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// TopologySpreadConstraints of the pods.
	// +optional
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	// ServiceAccount is the identity of the pods.
	// +optional
	// +kubebuilder:default={}
	ServiceAccount ServiceAccountSpec `json:"serviceAccount,omitzero"`
	// Deployment is what the Deployment itself says besides its pods.
	// +optional
	Deployment DeploymentSpec `json:"deployment,omitzero"`
	// PodDisruptionBudget limits how many pods an eviction may take at once.
	// +optional
	PodDisruptionBudget *PodDisruptionBudgetSpec `json:"podDisruptionBudget,omitempty"`
	// NetworkPolicy restricts the traffic of the pods.
	// +optional
	NetworkPolicy *NetworkPolicySpec `json:"networkPolicy,omitempty"`
	// Metrics makes the metrics of Coder available to Prometheus.
	// +optional
	Metrics MetricsSpec `json:"metrics,omitzero"`
	// PodTemplate is merged over the pod template that follows from all other
	// fields, by strategic merge: containers, volumes and the like with the same
	// name are merged, others are added, single values are replaced. It is for what
	// no field covers: init containers, sidecars, lifecycle hooks, priority, DNS,
	// runtime class, labels and annotations of the pods. The container of Coder is
	// named coder, provisioner or workspace-proxy.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.restartPolicy) || self.spec.restartPolicy == 'Always'",message="spec.restartPolicy must be Always, because a Deployment allows nothing else; remove it"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.activeDeadlineSeconds)",message="spec.activeDeadlineSeconds is not allowed in a Deployment; remove it"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !(has(self.spec.serviceAccountName) || has(self.spec.serviceAccount))",message="spec.serviceAccountName: the ServiceAccount is chosen in spec.serviceAccount.name, and with its rights workspaces are made; name it there, and remove it here"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.initContainers) || self.spec.initContainers.all(c, has(c.image) && size(c.image) > 0)",message="spec.initContainers: each needs an image"
	PodTemplate *corev1.PodTemplateSpec `json:"podTemplate,omitempty"`
}

// ServiceAccountSpec is the identity of the pods.
type ServiceAccountSpec struct {
	// DisableCreate uses an existing ServiceAccount instead of making one.
	// +optional
	// +kubebuilder:default=false
	DisableCreate bool `json:"disableCreate,omitempty"`
	// Name of the ServiceAccount. Unset, it is <name> for a control plane,
	// <name>-provisioner for provisioners and wsproxy-<name> for a proxy.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a ServiceAccount: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	Name string `json:"name,omitempty"`
	// Annotations of the ServiceAccount, for example of a cloud's workload identity.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// Labels of the ServiceAccount.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
}

// CertsSpec are certificate authorities that the container trusts.
type CertsSpec struct {
	// Secrets that hold one certificate each.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	// +listMapKey=key
	Secrets []CertSecretSelector `json:"secrets,omitempty"`
}

// CertSecretSelector names a key of a Secret that holds a PEM certificate.
type CertSecretSelector struct {
	// Name of the Secret.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	Name string `json:"name"`
	// Key in the Secret.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="must be a key of a Secret: letters, digits, dashes, underscores and dots"
	Key string `json:"key"`
}

// DeploymentSpec is what the Deployment itself says besides its pods.
type DeploymentSpec struct {
	// Annotations of the Deployment.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// Labels of the Deployment, besides the operator's own.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Strategy replaces pods by new ones. Unset, it is the rolling update of
	// Kubernetes.
	// +optional
	Strategy *DeploymentStrategy `json:"strategy,omitempty"`
}

// DeploymentStrategy replaces pods by new ones.
//
// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdate) || self.type == 'RollingUpdate'",message="rollingUpdate has an effect with type RollingUpdate only; remove it, or set that type",messageExpression="'rollingUpdate has an effect with type RollingUpdate only; remove it, or set that type instead of ' + self.type"
type DeploymentStrategy struct {
	// Type: RollingUpdate replaces them one after the other, Recreate all at once.
	// +optional
	// +kubebuilder:default=RollingUpdate
	// +kubebuilder:validation:Enum=RollingUpdate;Recreate
	Type string `json:"type,omitempty"`
	// RollingUpdate says how many at a time.
	// +optional
	RollingUpdate *RollingUpdate `json:"rollingUpdate,omitempty"`
}

// RollingUpdate says how many pods are replaced at a time.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.maxSurge) && has(self.maxUnavailable) && string(self.maxSurge) in ['0', '0%'] && string(self.maxUnavailable) in ['0', '0%'])",message="maxSurge and maxUnavailable must not both be 0, because no pod could be replaced then; raise one of them"
type RollingUpdate struct {
	// MaxUnavailable pods below the number that is wanted, or a percentage of it.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[0-9]{1,2})%$')",message="must be a number, or a percentage from 0% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MaxSurge pods above the number that is wanted, or a percentage of it.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^[0-9]{1,3}%$')",message="must be a number, or a percentage such as 25%"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
}

// PodDisruptionBudgetSpec limits how many pods an eviction may take at once.
//
// +kubebuilder:validation:XValidation:rule="has(self.minAvailable) != has(self.maxUnavailable)",message="a budget takes either minAvailable or maxUnavailable; give exactly one"
type PodDisruptionBudgetSpec struct {
	// MinAvailable pods must stay, or a percentage of them.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[0-9]{1,2})%$')",message="must be a number, or a percentage from 0% to 100%"
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`
	// MaxUnavailable pods may be missing, or a percentage of them.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[0-9]{1,2})%$')",message="must be a number, or a percentage from 0% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// NetworkPolicySpec restricts the traffic of the pods. The pods of one workload
// and the operator may always reach its ports; DNS is always allowed.
type NetworkPolicySpec struct {
	// From are those who may reach Coder's HTTP ports. Unset, everybody may.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(p, has(p.ipBlock) != (has(p.podSelector) || has(p.namespaceSelector)))",message="each entry is an ipBlock, or pods by podSelector and namespaceSelector; for both write two entries"
	From []networkingv1.NetworkPolicyPeer `json:"from,omitempty"`
	// MetricsFrom are those who may reach the metrics port. Unset, it is the pods
	// of the same namespace.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(p, has(p.ipBlock) != (has(p.podSelector) || has(p.namespaceSelector)))",message="each entry is an ipBlock, or pods by podSelector and namespaceSelector; for both write two entries"
	MetricsFrom []networkingv1.NetworkPolicyPeer `json:"metricsFrom,omitempty"`
	// Egress is where the pods may connect to, besides DNS and each other. Unset,
	// everywhere: coderd needs its database, its identity provider, the registry of
	// Terraform and the API server.
	// +optional
	Egress []networkingv1.NetworkPolicyEgressRule `json:"egress,omitempty"`
}

// MetricsSpec makes the metrics of Coder available to Prometheus.
//
// +kubebuilder:validation:XValidation:rule="!has(self.serviceMonitor) || (has(self.enabled) && self.enabled)",message="serviceMonitor needs metrics; set metrics.enabled to true"
type MetricsSpec struct {
	// Enabled serves the metrics on port 2112 of the pods, and makes the Service
	// <workload>-metrics in front of it, which is never exposed outside.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// ServiceMonitor makes a ServiceMonitor, where the Prometheus Operator is
	// installed.
	// +optional
	ServiceMonitor *ServiceMonitorSpec `json:"serviceMonitor,omitempty"`
}

// ServiceMonitorSpec is a ServiceMonitor of the Prometheus Operator.
type ServiceMonitorSpec struct {
	// Labels of the ServiceMonitor, by which a Prometheus selects it.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Interval between two scrapes, for example 30s. Unset, it is that of the
	// Prometheus.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$')",message="must be a duration as Prometheus writes it, for example 30s or 1m"
	Interval string `json:"interval,omitempty"`
}

// RBACSpec is what the ServiceAccount may do, for the workspaces that Terraform
// makes with its rights.
//
// +kubebuilder:validation:XValidation:rule="!has(self.workspaceNamespaces) || !has(self.namespaces) || !self.namespaces.exists(n, n.name in self.workspaceNamespaces)",message="a namespace stands in workspaceNamespaces or in namespaces, not in both; remove it from one of them"
type RBACSpec struct {
	// WorkspacePerms lets it make pods and volume claims for workspaces.
	// +optional
	// +kubebuilder:default=true
	WorkspacePerms *bool `json:"workspacePerms,omitempty"`
	// EnableDeployments lets it make Deployments too.
	// +optional
	// +kubebuilder:default=true
	EnableDeployments *bool `json:"enableDeployments,omitempty"`
	// ExtraRules are added. The operator can only grant what it holds itself, and
	// what the author of spec.rbac may grant: who holds each right in the namespace, or
	// may escalate and bind roles there.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(r, size(r.verbs) > 0 && has(r.apiGroups) && size(r.apiGroups) > 0 && has(r.resources) && size(r.resources) > 0 && !has(r.nonResourceURLs))",message="each rule allows something in a namespace: give apiGroups, resources and verbs, and no nonResourceURLs"
	// +kubebuilder:validation:MaxItems=100
	ExtraRules []rbacv1.PolicyRule `json:"extraRules,omitempty"`
	// WorkspaceNamespaces are further namespaces in which the same is granted. The
	// author of spec.rbac must be allowed to create Roles and RoleBindings there.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a namespace: lower case letters, digits and dashes, a letter or digit at both ends"
	WorkspaceNamespaces []string `json:"workspaceNamespaces,omitempty"`
	// Namespaces are further namespaces in which something else is granted. What an
	// entry leaves out is as above.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Namespaces []NamespaceRBAC `json:"namespaces,omitempty"`
}

// NamespaceRBAC is what the ServiceAccount may do in one namespace.
type NamespaceRBAC struct {
	// Name of the namespace.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a namespace: lower case letters, digits and dashes, a letter or digit at both ends"
	Name string `json:"name"`
	// WorkspacePerms as in spec.rbac.
	// +optional
	WorkspacePerms *bool `json:"workspacePerms,omitempty"`
	// EnableDeployments as in spec.rbac.
	// +optional
	EnableDeployments *bool `json:"enableDeployments,omitempty"`
	// ExtraRules as in spec.rbac. [] means none.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(r, size(r.verbs) > 0 && has(r.apiGroups) && size(r.apiGroups) > 0 && has(r.resources) && size(r.resources) > 0 && !has(r.nonResourceURLs))",message="each rule allows something in a namespace: give apiGroups, resources and verbs, and no nonResourceURLs"
	// +kubebuilder:validation:MaxItems=100
	ExtraRules []rbacv1.PolicyRule `json:"extraRules,omitempty"`
}

// ControlPlaneReference names a CoderControlPlane in the same namespace.
type ControlPlaneReference struct {
	// Name of the CoderControlPlane.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a CoderControlPlane in this namespace: lower case letters, digits and dashes, a letter first"
	Name string `json:"name"`
}

// WorkloadStatus is what the three kinds tell of their Deployment. It is inlined
// into each status.
type WorkloadStatus struct {
	// ObservedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase is Ready or Pending: the condition Ready in one word.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// Conditions: Ready, Reconciling and Stalled as kstatus reads them, and the
	// parts of which Ready is made.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Replicas is the number of pods.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// ReadyReplicas is the number of pods that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// Selector chooses the pods, as the scale subresource tells it.
	// +optional
	Selector string `json:"selector,omitempty"`
}

// Phase is the condition Ready in one word.
//
// +kubebuilder:validation:Enum=Pending;Ready
type Phase string

// The phases.
const (
	PhasePending Phase = "Pending"
	PhaseReady   Phase = "Ready"
)
