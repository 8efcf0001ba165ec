package resources

import (
	workloadresources "github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

// Inputs is what a child needs and the spec does not hold: the reconciler looks
// it up first.
type Inputs struct {
	// ClusterDomain is the cluster's DNS domain. Empty means cluster.local.
	ClusterDomain string
	// PodIPv6 says that the first address of pods is one of IPv6.
	PodIPv6 bool
	// EnvFromNames are the names of the variables that spec.envFrom brings.
	EnvFromNames map[string]bool
	// OperatorNamespace is where the operator runs. Empty means that it is not known.
	OperatorNamespace string
	// Checksum identifies the content that the pods refer to.
	Checksum string
	// Adopted is what stays of a Deployment that was handed over, or nil.
	Adopted *workloadresources.Adopted
	// KeepReplicas leaves the number of pods to whoever scaled the Deployment.
	KeepReplicas bool
}
