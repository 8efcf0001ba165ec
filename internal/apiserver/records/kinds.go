package records

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
)

// Workspaces returns the configuration for the records of workspaces.
func Workspaces(cluster Cluster, replica, namespace string, c clock.PassiveClock) Config {
	config := common(cluster, replica, namespace, c)
	config.Kind, config.Prefix = "CoderWorkspace", KeyPrefix("coderworkspaces")
	config.NewObject = func() Object { return &aggregationv1alpha1.CoderWorkspace{} }
	config.State = func(o Object) string { return o.(*aggregationv1alpha1.CoderWorkspace).Status.Phase }
	return config
}

// Templates returns the configuration for the records of templates, and the parts of their files.
func Templates(cluster, parts Cluster, replica, namespace string, c clock.PassiveClock) Config {
	config := common(cluster, replica, namespace, c)
	config.Files = NewFiles(parts, c)
	config.Kind, config.Prefix = "CoderTemplate", KeyPrefix("codertemplates")
	config.NewObject = func() Object { return &aggregationv1alpha1.CoderTemplate{} }
	config.State = func(o Object) string { return o.(*aggregationv1alpha1.CoderTemplate).Status.ActiveVersionID }
	return config
}

// Users returns the configuration for the records of users.
func Users(cluster Cluster, replica, namespace string, c clock.PassiveClock) Config {
	config := common(cluster, replica, namespace, c)
	config.Kind, config.Prefix = "CoderUser", KeyPrefix("coderusers")
	config.NewObject = func() Object { return &aggregationv1alpha1.CoderUser{} }
	config.State = func(o Object) string { return o.(*aggregationv1alpha1.CoderUser).Status.State }
	return config
}

func common(cluster Cluster, replica, namespace string, c clock.PassiveClock) Config {
	return Config{Cluster: cluster, Replica: replica, HeartbeatNamespace: namespace, Clock: c}
}

// KeyPrefix returns the prefix of the keys of a resource.
func KeyPrefix(resource string) string {
	return "/" + aggregationv1alpha1.GroupVersion.Group + "/" + resource
}

// IDOf returns the id of an object in Coder. An object of an earlier version of the operator has it as its
// UID too.
func IDOf(object Object) types.UID {
	id := ""
	switch o := object.(type) {
	case *aggregationv1alpha1.CoderWorkspace:
		id = o.Status.ID
	case *aggregationv1alpha1.CoderTemplate:
		id = o.Status.ID
	case *aggregationv1alpha1.CoderUser:
		id = o.Status.ID
	}
	return cmp.Or(types.UID(id), object.GetUID())
}

// pending returns a readable summary of the changes that are not applied to Coder yet.
func pending(record *metadata.Record) string {
	switch {
	case record == nil:
	case record.Pending():
		return "create"
	case record.DeletionTimestamp != nil:
		return "delete"
	}
	return ""
}
