package v1alpha1

import "k8s.io/apimachinery/pkg/runtime/schema"

// GroupVersion is the group and version of the types in this package.
var GroupVersion = schema.GroupVersion{Group: "internal.coder.com", Version: "v1alpha1"}
