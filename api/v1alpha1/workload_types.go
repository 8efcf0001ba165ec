package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// WorkloadSpec contains the fields that control planes, provisioners and workspace proxies share:
// the Deployment of Coder's image and related objects. It is inlined into each spec.
type WorkloadSpec struct {
	// ImagePullPolicy is the pull policy of the image. If it is empty, the default of Kubernetes
	// applies: Always for the tag latest, IfNotPresent otherwise.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	// ImagePullSecrets refer to Secrets in the same namespace with credentials for the image's
	// registry.
	// +optional
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// Replicas is the number of pods. "kubectl scale" and a HorizontalPodAutoscaler change this
	// field. If something scales the Deployment directly, its number stays until this field
	// changes. More than one pod of coderd or of a proxy requires a license with high availability.
	// Defaults to 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
	// Command replaces the entry point of the image, for an image in which the coder program has
	// another path. The default arguments then begin with the subcommand of coder.
	// +optional
	Command []string `json:"command,omitempty"`
	// Args replaces all arguments, including those of the operator.
	// +optional
	Args []string `json:"args,omitempty"`
	// ExtraArgs are appended to the arguments.
	// +optional
	ExtraArgs []string `json:"extraArgs,omitempty"`
	// ExtraEnv is added to the environment. A variable that the operator also sets is replaced by
	// the one in this list.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:XValidation:rule="self.all(e, size(e.name) > 0)",message="each variable has a name; give one"
	// +kubebuilder:validation:XValidation:rule="self.all(e, !(has(e.value) && size(e.value) > 0 && has(e.valueFrom)))",message="each variable has a value or a valueFrom, not both; remove one of them"
	// +kubebuilder:validation:XValidation:rule="self.all(e, !has(e.valueFrom) || (has(e.valueFrom.configMapKeyRef) ? 1 : 0) + (has(e.valueFrom.secretKeyRef) ? 1 : 0) + (has(e.valueFrom.fieldRef) ? 1 : 0) + (has(e.valueFrom.resourceFieldRef) ? 1 : 0) + (has(e.valueFrom.fileKeyRef) ? 1 : 0) == 1)",message="each valueFrom names exactly one source: configMapKeyRef, secretKeyRef, fieldRef, resourceFieldRef or fileKeyRef"
	ExtraEnv []corev1.EnvVar `json:"extraEnv,omitempty"`
	// EnvFrom adds variables from ConfigMaps and Secrets to the environment. A change of their
	// content restarts the pods in a rollout.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(e, has(e.configMapRef) != has(e.secretRef))",message="each entry takes its variables from a configMapRef or from a secretRef; give exactly one, and for both write two entries"
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`
	// Resources are the resource requests and limits of the container. Defaults to the values of
	// Coder's own chart: 2 CPUs and 4Gi of memory, as requests and as limits. {} means no requests
	// and no limits.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || ['cpu', 'memory', 'ephemeral-storage'].all(k, !(k in self.requests) || !(k in self.limits) || !quantity(string(self.requests[k])).isGreaterThan(quantity(string(self.limits[k]))))",message="a request must not be above the limit of the same resource; lower the request or raise the limit"
	// +kubebuilder:validation:XValidation:rule="['cpu', 'memory', 'ephemeral-storage'].all(k, !(has(self.requests) && k in self.requests && string(self.requests[k]).startsWith('-')) && !(has(self.limits) && k in self.limits && string(self.limits[k]).startsWith('-')))",message="requests and limits must not be negative"
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// SecurityContext is merged over the defaults of the container, field by field: user and group
	// 1000, not root, no privilege escalation, no capabilities (drop: [ALL]), seccomp profile
	// RuntimeDefault. With the defaults, Pod Security "restricted" admits the pods. Running pods
	// without one of the defaults, from Helm or an earlier version of the operator, get it when the
	// image changes.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!(has(self.runAsNonRoot) && self.runAsNonRoot && has(self.runAsUser) && self.runAsUser == 0)",message="runAsUser 0 is root, which runAsNonRoot forbids; choose another user, or set runAsNonRoot to false"
	// +kubebuilder:validation:XValidation:rule="!(has(self.privileged) && self.privileged && has(self.allowPrivilegeEscalation) && !self.allowPrivilegeEscalation)",message="a privileged container can always escalate; remove privileged, or set allowPrivilegeEscalation to true"
	SecurityContext *corev1.SecurityContext `json:"securityContext,omitempty"`
	// PlatformAssignedUser removes the default user and group 1000, for a platform that assigns
	// them, as OpenShift does with restricted-v2. The values of spec.securityContext and
	// spec.podSecurityContext still apply. It is a separate field, because null in securityContext
	// means the default. Defaults to false.
	// +optional
	PlatformAssignedUser bool `json:"platformAssignedUser,omitempty"`
	// PodSecurityContext is the security context of the pod. It has no defaults: those of the
	// container are sufficient, and containers in spec.podTemplate have their own.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!(has(self.runAsNonRoot) && self.runAsNonRoot && has(self.runAsUser) && self.runAsUser == 0)",message="runAsUser 0 is root, which runAsNonRoot forbids; choose another user, or set runAsNonRoot to false"
	PodSecurityContext *corev1.PodSecurityContext `json:"podSecurityContext,omitempty"`
	// TerminationGracePeriodSeconds is the time that a pod has to stop, in seconds. Defaults to 60
	// for coderd and for a proxy, and to 600 for provisioners, which finish their job.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`
	// Certs are certificate authorities that the container trusts in addition to those of the
	// system.
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
	// NodeSelector restricts the nodes on which the pods run.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Tolerations are the tolerations of the pods.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// Affinity is the affinity of the pods. By default they prefer different nodes. {} means no
	// affinity.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// TopologySpreadConstraints are the topology spread constraints of the pods.
	// +optional
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	// ServiceAccount configures the ServiceAccount of the pods.
	// +optional
	// +kubebuilder:default={}
	ServiceAccount ServiceAccountSpec `json:"serviceAccount,omitzero"`
	// Deployment configures the Deployment itself, except for its pods.
	// +optional
	Deployment DeploymentSpec `json:"deployment,omitzero"`
	// PodDisruptionBudget limits how many pods may be evicted at the same time. If it is unset,
	// there is no PodDisruptionBudget.
	// +optional
	PodDisruptionBudget *PodDisruptionBudgetSpec `json:"podDisruptionBudget,omitempty"`
	// NetworkPolicy restricts the traffic of the pods. If it is unset, there is no NetworkPolicy.
	// +optional
	NetworkPolicy *NetworkPolicySpec `json:"networkPolicy,omitempty"`
	// Metrics makes Coder's metrics available to Prometheus.
	// +optional
	Metrics MetricsSpec `json:"metrics,omitzero"`
	// PodTemplate is merged over the pod template that results from all other fields, with a
	// strategic merge: containers, volumes and other lists with the same name are merged, other
	// entries are added, and single values are replaced. Use it for everything without a field of
	// its own: init containers, sidecars, lifecycle hooks, priority, DNS, runtime class, and labels
	// and annotations of the pods. The container of Coder has the name coder, provisioner or
	// workspace-proxy.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.restartPolicy) || self.spec.restartPolicy == 'Always'",message="spec.restartPolicy must be Always, because a Deployment allows nothing else; remove it"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.activeDeadlineSeconds)",message="spec.activeDeadlineSeconds is not allowed in a Deployment; remove it"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !(has(self.spec.serviceAccountName) || has(self.spec.serviceAccount))",message="spec.serviceAccountName: the ServiceAccount is chosen in spec.serviceAccount.name, and with its rights workspaces are made; name it there, and remove it here"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.initContainers) || self.spec.initContainers.all(c, has(c.image) && size(c.image) > 0)",message="spec.initContainers: each needs an image"
	PodTemplate *corev1.PodTemplateSpec `json:"podTemplate,omitempty"`
}

// ServiceAccountSpec configures the ServiceAccount of the pods.
type ServiceAccountSpec struct {
	// DisableCreate uses an existing ServiceAccount instead of creating one. Defaults to false.
	// +optional
	// +kubebuilder:default=false
	DisableCreate bool `json:"disableCreate,omitempty"`
	// Name is the name of the ServiceAccount. Defaults to <name> for a control plane,
	// <name>-provisioner for provisioners and wsproxy-<name> for a proxy. That of provisioners and
	// of a proxy cannot change while their pods run.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a ServiceAccount: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	Name string `json:"name,omitempty"`
	// Annotations are added to the ServiceAccount, for example for a cloud's workload identity.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// Labels are added to the ServiceAccount.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
}

// CertsSpec contains certificate authorities that the container trusts.
type CertsSpec struct {
	// Secrets are keys of Secrets that contain one certificate each.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	// +listMapKey=key
	Secrets []CertSecretSelector `json:"secrets,omitempty"`
}

// CertSecretSelector refers to a key of a Secret that contains a PEM certificate.
type CertSecretSelector struct {
	// Name is the name of the Secret.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be the name of a Secret: lower case letters, digits, dashes and dots, a letter or digit at both ends"
	Name string `json:"name"`
	// Key is the key in the Secret.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="must be a key of a Secret: letters, digits, dashes, underscores and dots"
	Key string `json:"key"`
}

// DeploymentSpec configures the Deployment itself, except for its pods.
type DeploymentSpec struct {
	// Annotations are added to the Deployment.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// Labels are added to the Deployment, in addition to the operator's own labels.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Strategy is the strategy with which pods are replaced by new ones. Defaults to a rolling
	// update with 25% for maxUnavailable and maxSurge, as in Kubernetes. For a control plane, an image
	// with another minor version, or without a version in its tag, is always rolled out with Recreate,
	// whatever this field is, because two minor versions of Coder must not use one database at the same time.
	// +optional
	Strategy *DeploymentStrategy `json:"strategy,omitempty"`
}

// DeploymentStrategy is the strategy with which pods are replaced by new ones.
//
// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdate) || self.type == 'RollingUpdate'",message="rollingUpdate has an effect with type RollingUpdate only; remove it, or set that type",messageExpression="'rollingUpdate has an effect with type RollingUpdate only; remove it, or set that type instead of ' + self.type"
type DeploymentStrategy struct {
	// Type is the type of the strategy: RollingUpdate replaces the pods gradually, Recreate stops
	// all pods before it starts new ones. Defaults to RollingUpdate.
	// +optional
	// +kubebuilder:default=RollingUpdate
	// +kubebuilder:validation:Enum=RollingUpdate;Recreate
	Type string `json:"type,omitempty"`
	// RollingUpdate configures the strategy RollingUpdate.
	// +optional
	RollingUpdate *RollingUpdate `json:"rollingUpdate,omitempty"`
}

// RollingUpdate limits how many pods are replaced at the same time.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.maxSurge) && has(self.maxUnavailable) && string(self.maxSurge) in ['0', '0%'] && string(self.maxUnavailable) in ['0', '0%'])",message="maxSurge and maxUnavailable must not both be 0, because no pod could be replaced then; raise one of them"
type RollingUpdate struct {
	// MaxUnavailable is how many pods may be unavailable below the desired number, as a number or a
	// percentage. Defaults to 25%.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[0-9]{1,2})%$')",message="must be a number, or a percentage from 0% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MaxSurge is how many pods may exist above the desired number, as a number or a percentage.
	// Defaults to 25%.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^[0-9]{1,3}%$')",message="must be a number, or a percentage such as 25%"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
}

// PodDisruptionBudgetSpec limits how many pods may be evicted at the same time.
//
// +kubebuilder:validation:XValidation:rule="has(self.minAvailable) != has(self.maxUnavailable)",message="a budget takes either minAvailable or maxUnavailable; give exactly one"
type PodDisruptionBudgetSpec struct {
	// MinAvailable is how many pods must stay available, as a number or a percentage.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[0-9]{1,2})%$')",message="must be a number, or a percentage from 0% to 100%"
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`
	// MaxUnavailable is how many pods may be unavailable, as a number or a percentage.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[0-9]{1,2})%$')",message="must be a number, or a percentage from 0% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// NetworkPolicySpec restricts the traffic of the pods. The pods of the same workload and the
// operator may always connect to its ports. DNS is always allowed.
type NetworkPolicySpec struct {
	// From are the peers that may connect to Coder's HTTP ports. If it is unset, all may. [] means
	// none.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(p, has(p.ipBlock) != (has(p.podSelector) || has(p.namespaceSelector)))",message="each entry is an ipBlock, or pods by podSelector and namespaceSelector; for both write two entries"
	From []networkingv1.NetworkPolicyPeer `json:"from,omitempty"`
	// MetricsFrom are the peers that may connect to the metrics port. If it is unset, the pods of
	// the same namespace may. [] means none.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(p, has(p.ipBlock) != (has(p.podSelector) || has(p.namespaceSelector)))",message="each entry is an ipBlock, or pods by podSelector and namespaceSelector; for both write two entries"
	MetricsFrom []networkingv1.NetworkPolicyPeer `json:"metricsFrom,omitempty"`
	// Egress are the destinations to which the pods may connect, in addition to DNS and each other.
	// If it is unset, all destinations are allowed: coderd needs its database, its identity
	// provider, the Terraform registry and the API server. [] means no further destination.
	// +optional
	Egress []networkingv1.NetworkPolicyEgressRule `json:"egress,omitempty"`
}

// MetricsSpec makes Coder's metrics available to Prometheus.
//
// +kubebuilder:validation:XValidation:rule="!has(self.serviceMonitor) || (has(self.enabled) && self.enabled)",message="serviceMonitor needs metrics; set metrics.enabled to true"
type MetricsSpec struct {
	// Enabled serves the metrics on port 2112 of the pods, and creates the Service
	// <workload>-metrics for them, which is never exposed outside of the cluster. Defaults to
	// false.
	// +optional
	Enabled bool `json:"enabled,omitempty"`
	// ServiceMonitor creates a ServiceMonitor, if the Prometheus Operator is installed.
	// +optional
	ServiceMonitor *ServiceMonitorSpec `json:"serviceMonitor,omitempty"`
}

// ServiceMonitorSpec configures a ServiceMonitor of the Prometheus Operator.
type ServiceMonitorSpec struct {
	// Labels are added to the ServiceMonitor. A Prometheus selects it by them.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Interval is the interval between two scrapes, for example 30s. Defaults to the interval of
	// the Prometheus.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$')",message="must be a duration as Prometheus writes it, for example 30s or 1m"
	Interval string `json:"interval,omitempty"`
}

// RBACSpec configures the permissions of the ServiceAccount, with which Terraform creates
// workspaces.
//
// +kubebuilder:validation:XValidation:rule="!has(self.workspaceNamespaces) || !has(self.namespaces) || !self.namespaces.exists(n, n.name in self.workspaceNamespaces)",message="a namespace is listed in both workspaceNamespaces and namespaces; remove it from one of them"
type RBACSpec struct {
	// WorkspacePerms grants the permissions to manage pods and persistent volume claims for
	// workspaces. Defaults to true.
	// +optional
	// +kubebuilder:default=true
	WorkspacePerms *bool `json:"workspacePerms,omitempty"`
	// EnableDeployments also grants the permissions to manage Deployments. Defaults to true.
	// +optional
	// +kubebuilder:default=true
	EnableDeployments *bool `json:"enableDeployments,omitempty"`
	// ExtraRules are additional rules. The operator can only grant permissions that it has itself,
	// and that the author of spec.rbac may grant: the author must have each permission in the
	// namespace, or the verbs escalate and bind on roles there.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(r, size(r.verbs) > 0 && has(r.apiGroups) && size(r.apiGroups) > 0 && has(r.resources) && size(r.resources) > 0 && !has(r.nonResourceURLs))",message="each rule allows something in a namespace: give apiGroups, resources and verbs, and no nonResourceURLs"
	// +kubebuilder:validation:MaxItems=100
	ExtraRules []rbacv1.PolicyRule `json:"extraRules,omitempty"`
	// WorkspaceNamespaces are further namespaces in which the same permissions are granted. The
	// author of spec.rbac must be allowed to create Roles and RoleBindings there.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a namespace: lower case letters, digits and dashes, a letter or digit at both ends"
	WorkspaceNamespaces []string `json:"workspaceNamespaces,omitempty"`
	// Namespaces are further namespaces in which other permissions are granted. A field that an
	// entry omits has the value from spec.rbac.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Namespaces []NamespaceRBAC `json:"namespaces,omitempty"`
}

// NamespaceRBAC configures the permissions of the ServiceAccount in one namespace.
type NamespaceRBAC struct {
	// Name is the name of the namespace.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a namespace: lower case letters, digits and dashes, a letter or digit at both ends"
	Name string `json:"name"`
	// WorkspacePerms is like spec.rbac.workspacePerms, for this namespace.
	// +optional
	WorkspacePerms *bool `json:"workspacePerms,omitempty"`
	// EnableDeployments is like spec.rbac.enableDeployments, for this namespace.
	// +optional
	EnableDeployments *bool `json:"enableDeployments,omitempty"`
	// ExtraRules is like spec.rbac.extraRules, for this namespace. [] means none.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(r, size(r.verbs) > 0 && has(r.apiGroups) && size(r.apiGroups) > 0 && has(r.resources) && size(r.resources) > 0 && !has(r.nonResourceURLs))",message="each rule allows something in a namespace: give apiGroups, resources and verbs, and no nonResourceURLs"
	// +kubebuilder:validation:MaxItems=100
	ExtraRules []rbacv1.PolicyRule `json:"extraRules,omitempty"`
}

// ControlPlaneReference refers to a CoderControlPlane in the same namespace.
type ControlPlaneReference struct {
	// Name is the name of the CoderControlPlane.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="must be the name of a CoderControlPlane in this namespace: lower case letters, digits and dashes, a letter first"
	Name string `json:"name"`
}

// WorkloadStatus contains the status fields that control planes, provisioners and workspace proxies
// share. It is inlined into each status.
type WorkloadStatus struct {
	// ObservedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase summarizes the condition Ready: Ready or Pending.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// Conditions are the conditions of the object: Ready, Reconciling and Stalled, which kstatus
	// evaluates, and the conditions from which Ready is derived.
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
	// Selector is the label selector of the pods, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`
}

// Phase summarizes the condition Ready in one word.
//
// +kubebuilder:validation:Enum=Pending;Ready
type Phase string

// The phases.
const (
	PhasePending Phase = "Pending"
	PhaseReady   Phase = "Ready"
)
