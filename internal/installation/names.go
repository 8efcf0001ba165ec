package installation

import (
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"

	metadatav1alpha1 "github.com/coder-k8s/coder-k8s/api/metadata/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/author"
)

// The names of an installation's objects.
const (
	// LabelName is on every object of an installation, with the value Name.
	LabelName = "app.kubernetes.io/name"
	// Name is the value of LabelName.
	Name = "coder-k8s"
	// Namespace is where the manifests install.
	Namespace = "coder-system"
	// APIServiceName is that of the APIService of the aggregated API.
	APIServiceName = "v1alpha1.aggregation.coder.com"
	// APIServiceService is the Service that the APIService points to.
	APIServiceService = "coder-k8s-apiserver"
	// APIServiceSecret holds the aggregated API's certificate and its authority.
	APIServiceSecret = "coder-k8s-apiserver-tls"
	// ConfirmationSecret holds the key that replicas of the MCP server share.
	ConfirmationSecret = "coder-k8s-mcp"
	// LeaseName is that of the Lease which elects the leader of the controllers.
	LeaseName = "coder-k8s-controller.coder.com"
	// APIServerLeaseName is that of the Lease which elects the replica of the aggregated API that mirrors Coder.
	APIServerLeaseName = "coder-k8s-aggregated-api"
	// PolicyName is that of the admission policies that record and guard the author of
	// spec.rbac, and of their bindings.
	PolicyName = author.PolicyName
	// TokenPolicyName is that of the one that keeps the operator from making Secrets
	// which hold the token of another account, and of its binding.
	TokenPolicyName = "coder-k8s-token-secrets"
)

// Definition is a kind that an installation defines.
type Definition struct {
	// Name is that of its CustomResourceDefinition.
	Name string
	// Resource is where its objects are found.
	Resource schema.GroupVersionResource
	Kind     string
	// Finalizer is what the operator puts on each object; empty is none.
	Finalizer string
	// object is the Go type that this program reads and writes.
	object reflect.Type
}

// Definitions are the kinds that people write, in the order in which they can be
// deleted: what registers itself in a control plane is before the control plane.
func Definitions() []Definition {
	return []Definition{
		definition("coderworkspaceproxies", "CoderWorkspaceProxy", coderv1alpha1.FinalizerWorkspaceProxy, coderv1alpha1.CoderWorkspaceProxy{}),
		definition("coderprovisioners", "CoderProvisioner", coderv1alpha1.FinalizerProvisionerKey, coderv1alpha1.CoderProvisioner{}),
		controlPlanes(),
	}
}

func controlPlanes() Definition {
	return definition("codercontrolplanes", "CoderControlPlane", coderv1alpha1.FinalizerCleanup, coderv1alpha1.CoderControlPlane{})
}

// RecordDefinitions are the kinds in which the aggregated API keeps what it serves, and
// that in which earlier versions kept what Coder has no place for.
func RecordDefinitions() []Definition {
	record := func(plural, kind string, object any) Definition {
		resource := metadatav1alpha1.GroupVersion.WithResource(plural)
		return Definition{Name: resource.GroupResource().String(), Resource: resource, Kind: kind, object: reflect.TypeOf(object)}
	}
	return []Definition{
		record("codermirrorstates", "CoderMirrorState", metadatav1alpha1.CoderMirrorState{}),
		record("coderobjectmetadata", "CoderObjectMetadata", metadatav1alpha1.CoderObjectMetadata{}),
		record("codertemplaterecords", "CoderTemplateRecord", metadatav1alpha1.CoderTemplateRecord{}),
		record("codertemplatesources", "CoderTemplateSource", metadatav1alpha1.CoderTemplateSource{}),
		record("coderuserrecords", "CoderUserRecord", metadatav1alpha1.CoderUserRecord{}),
		record("coderworkspacerecords", "CoderWorkspaceRecord", metadatav1alpha1.CoderWorkspaceRecord{}),
	}
}

func definition(plural, kind, finalizer string, object any) Definition {
	resource := coderv1alpha1.GroupVersion.WithResource(plural)
	return Definition{
		Name: resource.GroupResource().String(), Resource: resource, Kind: kind,
		Finalizer: finalizer, object: reflect.TypeOf(object),
	}
}
