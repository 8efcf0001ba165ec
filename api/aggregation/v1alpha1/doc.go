// Package v1alpha1 contains the types of the API group aggregation.coder.com: the workspaces,
// templates and users of Coder deployments as Kubernetes objects.
//
// Coder is the source of truth for these objects. The aggregated API server in internal/apiserver
// reads and writes them.
//
// Invariants: types, constants and their registration only. The lists of objects have exactly the
// fields that the JSON encoder of k8s.io/apimachinery streams.
//
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=com.coder.aggregation.v1alpha1
// +kubebuilder:object:generate=true
// +groupName=aggregation.coder.com
package v1alpha1
