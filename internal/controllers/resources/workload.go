package resources

import (
	corev1 "k8s.io/api/core/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// DefaultImage is the image of Coder if the spec names none: the newest known patch of the
// long-term release. CoderControlPlane has the same default in its schema.
const DefaultImage = "ghcr.io/coder/coder:v2.34.8"

// Cluster describes the cluster in which workloads run.
type Cluster struct {
	// ClusterDomain is the cluster's DNS domain. Empty means cluster.local.
	ClusterDomain string
	// PodIPv6 reports whether the primary address of pods is an IPv6 address.
	PodIPv6 bool
	// OperatorImage is the image of the operator, which backups to S3 use too. It is empty if the operator does not run in
	// a pod of its installation.
	OperatorImage string
	// OperatorNamespace is the namespace of the operator in NetworkPolicies. If it is empty, they allow
	// the operator's pods in any namespace.
	OperatorNamespace string
}

// Workload describes one Deployment of Coder's image for any of the three kinds. The builders of
// this package create its objects from it.
type Workload struct {
	Cluster
	// Name is the name of the Deployment and its Service, and the prefix of the names of the other
	// objects. Namespace is the namespace of all of them.
	Name, Namespace string
	// Labels are set on every object. They select the pods.
	Labels map[string]string
	// Component is the program that runs in the pods: coderd, provisionerd or wsproxy. It is set as
	// an annotation of the pods, as in Coder's own chart.
	Component string
	// PodAnnotations are additional annotations of the pods, for example those that roll them.
	// spec.podTemplate cannot override them. An empty value means that the pods must not have the
	// annotation.
	PodAnnotations map[string]string
	// Container is the name of Coder's container.
	Container string
	// Image is the image of that container. If HeldImage is set, the container has that image
	// instead, whatever the spec and spec.podTemplate ask for.
	Image, HeldImage string
	// StopFirst stops the old pods before new ones start, whatever strategy the spec sets.
	StopFirst bool
	// Command replaces the image's entry point. If it is empty, the entry point is kept. Args are
	// the operator's own arguments. Subcommand is put before Args if spec.command replaces the
	// entry point, because the entry point of Coder's image runs "coder server".
	Command, Subcommand, Args []string
	// Env are the operator's own variables. They come after those that follow from Serving, and
	// before spec.extraEnv.
	Env []corev1.EnvVar
	// EnvFromNames are the names of the variables from spec.envFrom. Variables that the operator
	// sets only for convenience do not override them.
	EnvFromNames map[string]bool
	// PeerPorts are the ports on which only the pods of the workload connect to each other. No
	// Service has them.
	PeerPorts []int32
	// ServiceAccountName is the name of the pods' ServiceAccount. The operator creates it unless
	// spec.serviceAccount.disableCreate is set.
	ServiceAccountName string
	// GracePeriodSeconds is the termination grace period of the pods if the spec sets none.
	GracePeriodSeconds int64
	// Checksum identifies the content of the Secrets and ConfigMaps that the pods refer to. A
	// change rolls the pods. If it is empty, the pod template gets no checksum.
	Checksum string
	// KeepReplicas keeps the number of replicas that another client set in the Deployment.
	KeepReplicas bool
	// HeldReplicas is the number of replicas during an upgrade, whatever the spec and other clients ask
	// for, or nil.
	HeldReplicas *int32

	// Adopted describes a Deployment that was handed over, or is nil.
	Adopted *Adopted

	// Spec is the part of the spec that the three kinds share.
	Spec *coderv1alpha1.WorkloadSpec
	// Serving is nil if the workload serves nothing.
	Serving *Serving
	// Live is the pod template of the current Deployment, or nil if there is none.
	Live *corev1.PodTemplateSpec
	// Rights are the permissions for workspaces, or nil if the kind grants none.
	Rights *Rights
}

// Serving describes the HTTP server of a workload.
type Serving struct {
	Spec *coderv1alpha1.ServingSpec
	// HTTPPort and HTTPSPort are the ports of the container.
	HTTPPort, HTTPSPort int32
	// Migrates reports that the server may be busy with its database for minutes before it answers.
	Migrates bool
	// ClusterHost is the name of the environment variable that holds the pod's address for the
	// other replicas. If it is empty, there is no such variable.
	ClusterHost string
	// ClusterAccessURL makes the address of the Service the access URL if nothing else sets one.
	ClusterAccessURL bool
}

// Rights describes the permissions that the pods' ServiceAccount has for workspaces.
type Rights struct {
	Spec *coderv1alpha1.RBACSpec
	// RoleName and BindingName are the names of the Role and the RoleBinding in the workload's own
	// namespace.
	RoleName, BindingName string
	// RemoteRoleName and RemoteBindingName are the names in other namespaces. A workload with the
	// same name in a third namespace may have objects there too. If they are empty, the names are
	// the same as in the workload's own namespace.
	RemoteRoleName, RemoteBindingName string
	// OwnerLabels and OwnerAnnotations identify the owner, because an owner reference cannot point
	// to another namespace.
	OwnerLabels, OwnerAnnotations map[string]string
}

// SpecError reports an invalid value of a spec that only the combination of fields shows.
type SpecError struct {
	// Field is the path of the field, for example spec.podTemplate.
	Field string
	// Detail describes what is wrong with the value, and how to fix it.
	Detail string
}

// Error implements error.
func (e *SpecError) Error() string { return e.Field + ": " + e.Detail }
