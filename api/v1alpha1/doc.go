// Package v1alpha1 holds the types of the API group coder.com: what a platform
// team writes into Git to run Coder on Kubernetes.
//
// It owns the shape of the custom resources, their defaults and validation
// (as markers from which the CRDs are generated), the types and reasons of
// their conditions, and the keys of labels, annotations and finalizers.
//
// Invariants: types and constants only. Nothing here talks to a cluster or to
// Coder, and nothing outside k8s.io/api, k8s.io/apimachinery and the scheme
// builder of controller-runtime is imported.
//
// +kubebuilder:object:generate=true
// +groupName=coder.com
package v1alpha1
