// Package v1alpha1 holds the types of the API group aggregation.coder.com:
// the workspaces and templates of Coder deployments as Kubernetes objects.
//
// It owns their shape alone. Their truth lives in Coder; the aggregated API
// server in internal/apiserver reads and writes it.
//
// Invariants: types, constants and their registration only. The lists of objects have
// exactly the fields that the JSON encoder of k8s.io/apimachinery streams.
//
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=com.coder.aggregation.v1alpha1
// +kubebuilder:object:generate=true
// +groupName=aggregation.coder.com
package v1alpha1
