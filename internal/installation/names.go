package installation

import (
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"

	recordsv1alpha1 "github.com/coder-k8s/coder-k8s/api/records/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/author"
)

// Names of the objects of an installation.
const (
	// LabelName is the label of all objects of an installation. Its value is Name.
	LabelName = "app.kubernetes.io/name"
	// Name is the value of LabelName.
	Name = "coder-k8s"
	// Namespace is the default namespace of the operator.
	Namespace = "coder-system"
	// apiServiceName is the name of the APIService of the aggregated API.
	apiServiceName = "v1alpha1.aggregation.coder.com"
	// apiServiceService is the Service that the APIService references.
	apiServiceService = "coder-k8s-apiserver"
	// apiServiceSecret contains the certificate of the aggregated API and its CA.
	apiServiceSecret = "coder-k8s-apiserver-tls"
	// leaseName is the name of the controllers' leader election Lease.
	leaseName = "coder-k8s-controller.coder.com"
	// apiServerLeaseName is the name of the Lease that elects the replica of the aggregated
	// API that mirrors Coder.
	apiServerLeaseName = "coder-k8s-aggregated-api"
	// PolicyName is the name of the admission policies that record and protect the author
	// of spec.rbac, and of their bindings.
	PolicyName = author.PolicyName
	// TokenPolicyName is the name of the admission policy that prevents the operator from
	// creating Secrets with the token of another ServiceAccount, and of its binding.
	TokenPolicyName = "coder-k8s-token-secrets"
)

// Definition is a kind that an installation defines.
type Definition struct {
	// Name is the name of the CustomResourceDefinition.
	Name string
	// Resource is the resource of its objects.
	Resource schema.GroupVersionResource
	Kind     string
	// object is the Go type of the objects.
	object reflect.Type
}

// Definitions returns the kinds that users create.
func Definitions() []Definition {
	return []Definition{
		workload("codertemplatetests", "CoderTemplateTest", coderv1alpha1.CoderTemplateTest{}),
		workload("coderbackupschedules", "CoderBackupSchedule", coderv1alpha1.CoderBackupSchedule{}),
		workload("coderbackups", "CoderBackup", coderv1alpha1.CoderBackup{}),
		workload("coderworkspaceproxies", "CoderWorkspaceProxy", coderv1alpha1.CoderWorkspaceProxy{}),
		workload("coderprovisioners", "CoderProvisioner", coderv1alpha1.CoderProvisioner{}),
		controlPlanes(),
	}
}

func controlPlanes() Definition {
	return workload("codercontrolplanes", "CoderControlPlane", coderv1alpha1.CoderControlPlane{})
}

// recordDefinitions returns the kinds in which the aggregated API stores its state.
func recordDefinitions() []Definition {
	return []Definition{
		mirrorStates(),
		record("codertemplaterecords", "CoderTemplateRecord", recordsv1alpha1.CoderTemplateRecord{}),
		record("codertemplatesources", "CoderTemplateSource", recordsv1alpha1.CoderTemplateSource{}),
		record("coderuserrecords", "CoderUserRecord", recordsv1alpha1.CoderUserRecord{}),
		record("coderworkspacerecords", "CoderWorkspaceRecord", recordsv1alpha1.CoderWorkspaceRecord{}),
	}
}

// mirrorStates returns the kind in which the aggregated API reports what it has read. The controllers
// need it too.
func mirrorStates() Definition {
	return record("codermirrorstates", "CoderMirrorState", recordsv1alpha1.CoderMirrorState{})
}

func record(plural, kind string, object any) Definition {
	return definition(recordsv1alpha1.GroupVersion.WithResource(plural), kind, object)
}

func workload(plural, kind string, object any) Definition {
	return definition(coderv1alpha1.GroupVersion.WithResource(plural), kind, object)
}

func definition(resource schema.GroupVersionResource, kind string, object any) Definition {
	return Definition{Name: resource.GroupResource().String(), Resource: resource, Kind: kind, object: reflect.TypeOf(object)}
}
