package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types in this package.
var GroupVersion = schema.GroupVersion{Group: "aggregation.coder.com", Version: "v1alpha1"}

// Resource returns the group-qualified name of a resource of this group.
func Resource(name string) schema.GroupResource {
	return GroupVersion.WithResource(name).GroupResource()
}

// AddToScheme registers the types of this package with a scheme, for clients.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, Types()...)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// Types returns one object of each type of this group.
func Types() []runtime.Object {
	return []runtime.Object{
		&CoderWorkspace{}, &CoderWorkspaceList{}, &CoderTemplate{}, &CoderTemplateList{},
		&CoderWorkspaceAction{}, &CoderWorkspaceToken{}, &CoderWorkspaceTokenList{}, &CoderWorkspaceLogOptions{}, &CoderWorkspaceExecOptions{}, &CoderWorkspacePortForwardOptions{},
		&CoderTemplatePromotion{}, &CoderTemplateVersion{}, &CoderTemplateVersionList{},
		&CoderTemplateParameterList{}, &CoderTemplateParameterOptions{}, &CoderTemplateLogOptions{},
		&CoderUser{}, &CoderUserList{},
		&CoderSelfReview{},
	}
}
