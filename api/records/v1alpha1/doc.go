// Package v1alpha1 contains the types of the API group internal.coder.com: objects in which the
// operator stores its own state in the cluster.
//
// The aggregated API stores in them the objects that it serves, with the metadata that Kubernetes
// has and Coder cannot store. Only the operator writes them. They may change with any version of
// the operator.
//
// Invariants: types and their registration only.
//
// +kubebuilder:object:generate=true
// +groupName=internal.coder.com
package v1alpha1
