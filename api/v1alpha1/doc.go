// Package v1alpha1 contains the types of the API group coder.com, with which platform teams
// configure Coder on Kubernetes.
//
// It defines the custom resources, their defaults and validation (as markers from which the CRDs
// are generated), the types and reasons of their conditions, and the keys of labels, annotations
// and finalizers.
//
// Invariants: the package contains only types, constants and functions on them. It does not access
// a cluster or Coder, and imports only k8s.io/api, k8s.io/apimachinery and the scheme builder of
// controller-runtime.
//
// +kubebuilder:object:generate=true
// +groupName=coder.com
package v1alpha1
