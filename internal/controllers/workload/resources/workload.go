package resources

import (
	corev1 "k8s.io/api/core/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// DefaultImage is the Coder that runs if no spec names an image: the newest known patch
// of the long-term release. The kind CoderControlPlane has it as its default too.
const DefaultImage = "ghcr.io/coder/coder:v2.34.8"

// Workload is one Deployment of Coder's image, of any of the three kinds, as far
// as the kinds differ. The builders of this package make its objects from it and
// from what the specs have in common.
type Workload struct {
	// Name is that of the Deployment and of its Service; the names of the other
	// objects begin with it. Namespace holds them all.
	Name, Namespace string
	// Labels are on every object, and select the pods.
	Labels map[string]string
	// Component says what runs in the pods: coderd, provisionerd or wsproxy. It
	// becomes an annotation of theirs, as in Coder's own chart.
	Component string
	// PodAnnotations are on the pods besides, for example what rolls them. They stay
	// the operator's, whatever spec.podTemplate says.
	PodAnnotations map[string]string
	// Container is the name of Coder's container.
	Container string
	// Image runs in it.
	Image string
	// Command replaces the image's entry point; empty keeps it. Args are the
	// operator's own arguments. Subcommand stands before Args where spec.command
	// replaces the entry point, which in Coder's image runs "coder server".
	Command, Subcommand, Args []string
	// Env is the operator's own environment, besides what follows from Spec and
	// Serving, and before spec.extraEnv.
	Env []corev1.EnvVar
	// EnvFromNames are the names of the variables that spec.envFrom brings. What the
	// operator sets for convenience only gives way to them.
	EnvFromNames map[string]bool
	// PeerPorts are the ports on which the pods talk to each other, besides those that
	// they serve. No Service has them.
	PeerPorts []int32
	// ServiceAccountName is the identity of the pods, made unless
	// spec.serviceAccount.disableCreate is set.
	ServiceAccountName string
	// GracePeriodSeconds is how long a pod has to end where the spec says nothing.
	GracePeriodSeconds int64
	// Checksum identifies the content of the Secrets and ConfigMaps that the pods
	// refer to. A change rolls the pods. Empty, the pods do not tell it.
	Checksum string
	// KeepReplicas leaves the number of pods to whoever scaled the Deployment.
	KeepReplicas bool
	// OperatorNamespace is where the operator runs, for the NetworkPolicy. Empty, it
	// may be any namespace.
	OperatorNamespace string

	// Adopted is what stays of a Deployment that was handed over, or nil.
	Adopted *Adopted

	// Spec is what the three kinds have in common.
	Spec *coderv1alpha1.WorkloadSpec
	// Serving is nil where nothing is served.
	Serving *Serving
	// Live is the pods of the Deployment as it is, nil where there is none.
	Live *corev1.PodTemplateSpec
	// Rights is what the pods' identity may do for workspaces, nil where nothing.
	Rights *Rights
}

// Serving is the HTTP side of a workload.
type Serving struct {
	Spec *coderv1alpha1.ServingSpec
	// HTTPPort and HTTPSPort are those of the container.
	HTTPPort, HTTPSPort int32
	// ClusterDomain is the cluster's DNS domain. Empty means cluster.local.
	ClusterDomain string
	// PodIPv6 says that the first address of pods is one of IPv6.
	PodIPv6 bool
	// ClusterHost is the variable that holds the pod's address for the other replicas.
	// Empty, there is none.
	ClusterHost string
	// ClusterAccessURL makes the address of the Service the access URL where
	// nothing else gives one.
	ClusterAccessURL bool
}

// Rights is what the identity of the pods may do for workspaces.
type Rights struct {
	Spec *coderv1alpha1.RBACSpec
	// RoleName and BindingName are those of the Role and the RoleBinding in the
	// workload's own namespace.
	RoleName, BindingName string
	// RemoteRoleName and RemoteBindingName are those in other namespaces, where a
	// workload of the same name in a third one may have its own. Empty, they are the
	// same as in the own namespace.
	RemoteRoleName, RemoteBindingName string
	// OwnerLabels and OwnerAnnotations say whose they are, since in other namespaces
	// an owner reference cannot.
	OwnerLabels, OwnerAnnotations map[string]string
}

// SpecError says what is wrong with a spec, where only the whole can tell.
type SpecError struct {
	// Field is the path of the field, for example spec.podTemplate.
	Field string
	// Detail says what is wrong with its value, and what to do.
	Detail string
}

// Error implements error.
func (e *SpecError) Error() string { return e.Field + ": " + e.Detail }
