package resources

import (
	corev1 "k8s.io/api/core/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// Workload is one Deployment of Coder's image, of any of the three kinds, as far
// as the kinds differ. The builders of this package make its objects from it and
// from what the specs have in common.
type Workload struct {
	// Name is that of the Deployment and of its Service; the names of the other
	// objects begin with it. Namespace holds them all.
	Name, Namespace string
	// Labels are on every object, and select the pods.
	Labels map[string]string
	// Container is the name of Coder's container.
	Container string
	// Image runs in it.
	Image string
	// Command replaces the image's entry point; empty keeps it. Args are the
	// operator's own arguments. Subcommand stands before Args where spec.command
	// replaces the entry point, which in Coder's image runs "coder server".
	Command, Subcommand, Args []string
	// Env is the operator's own environment, before spec.extraEnv.
	Env []corev1.EnvVar
	// ServiceAccountName is the identity of the pods, made unless
	// spec.serviceAccount.disableCreate is set.
	ServiceAccountName string
	// GracePeriodSeconds is how long a pod has to end where the spec says nothing.
	GracePeriodSeconds int64
	// Checksum identifies the content of the Secrets and ConfigMaps that the pods
	// refer to. A change rolls the pods.
	Checksum string
	// KeepReplicas leaves the number of pods to whoever scaled the Deployment.
	KeepReplicas bool

	// Spec is what the three kinds have in common.
	Spec *coderv1alpha1.WorkloadSpec
	// Serving is nil where nothing is served.
	Serving *Serving
	// RBAC is what the pods' identity may do for workspaces, nil where nothing.
	RBAC *coderv1alpha1.RBACSpec
	// OwnerName is the name of the custom resource, OwnerUID its uid.
	OwnerName, OwnerUID string
}

// Serving is the HTTP side of a workload.
type Serving struct {
	Spec *coderv1alpha1.ServingSpec
	// HTTPPort and HTTPSPort are those of the container.
	HTTPPort, HTTPSPort int32
}
