package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types in this package.
var GroupVersion = schema.GroupVersion{Group: "coder.com", Version: "v1alpha1"}

// AddToScheme registers the types of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&CoderControlPlane{}, &CoderControlPlaneList{},
		&CoderProvisioner{}, &CoderProvisionerList{},
		&CoderTemplateTest{}, &CoderTemplateTestList{},
		&CoderWorkspaceProxy{}, &CoderWorkspaceProxyList{},
		&CoderBackup{}, &CoderBackupList{},
		&CoderBackupSchedule{}, &CoderBackupScheduleList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
