package resources

import (
	workloadresources "github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

// Inputs contains the values that the builders need in addition to the spec. The reconciler reads
// them first.
type Inputs struct {
	// ClusterDomain is the cluster's DNS domain. Empty means cluster.local.
	ClusterDomain string
	// PodIPv6 reports whether the primary address of pods is an IPv6 address.
	PodIPv6 bool
	// EnvFromNames are the names of the variables from spec.envFrom.
	EnvFromNames map[string]bool
	// OperatorNamespace is the namespace of the operator. Empty means that it is unknown.
	OperatorNamespace string
	// Checksum identifies the content of the Secrets and ConfigMaps that the pods refer to.
	Checksum string
	// Adopted describes a Deployment that was handed over, or is nil.
	Adopted *workloadresources.Adopted
	// KeepReplicas keeps the number of replicas that another client set in the Deployment.
	KeepReplicas bool
}
