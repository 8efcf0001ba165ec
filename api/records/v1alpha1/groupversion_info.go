package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types in this package.
var GroupVersion = schema.GroupVersion{Group: "internal.coder.com", Version: "v1alpha1"}

// AddToScheme registers CoderMirrorState, the only kind of the group that the controllers read.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &CoderMirrorState{}, &CoderMirrorStateList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
