// Package v1alpha1 holds the types of the API group internal.coder.com: what the
// operator keeps for itself in the cluster.
//
// It owns the shape of CoderObjectMetadata, in which the aggregated API keeps what
// Kubernetes knows of a workspace or a template and Coder has no place for.
// Nobody but the operator is meant to write it, and it may change with any
// version of the operator.
//
// Invariants: types and their registration only.
//
// +kubebuilder:object:generate=true
// +groupName=internal.coder.com
package v1alpha1
