package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/coderfault"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// Connection returns the connection of the control plane whose objects in the namespace have the
// prefix. It returns nil if there is none. Errors are API statuses.
func Connection(ctx context.Context, provider connections.Provider, namespace, prefix string) (*connections.Connection, error) {
	found, err := provider.ForNamespace(ctx, namespace)
	for i := range found {
		if found[i].NamePrefix == prefix {
			return &found[i], nil
		}
	}
	// A control plane that is not ready may be the one with this prefix.
	return nil, coderfault.Subject{}.Status(err)
}

// Unconnected returns a connection without a client for a control plane that cannot be connected.
// It returns the error because if the control plane is not known or is being deleted.
func Unconnected(
	ctx context.Context, provider connections.Provider, controlPlane types.NamespacedName, because error,
) (connections.Connection, error) {
	members, err := provider.Members(ctx)
	i := slices.IndexFunc(members, func(m connections.Member) bool { return m.ControlPlane == controlPlane && !m.Deleting })
	if err != nil || i < 0 {
		return connections.Connection{}, because
	}
	return connections.Connection{ControlPlane: members[i].ControlPlane, UID: members[i].UID, Rules: members[i].Rules}, nil
}

// NoControlPlane returns the validation error for a name that belongs to no control plane of the
// namespace.
func NoControlPlane(namespace, prefix string) *field.Error {
	if prefix == "" {
		return field.Invalid(field.NewPath("metadata", "namespace"), namespace,
			"no CoderControlPlane of this namespace serves objects without a prefix in their names; create one, or add the prefix (status.objectNamePrefix)")
	}
	return field.Invalid(field.NewPath("metadata", "namespace"), namespace,
		fmt.Sprintf("no CoderControlPlane of this namespace has the prefix %q in status.objectNamePrefix", prefix))
}

// Organization returns the organization of a new object. An error that the user must fix is a
// *field.Error.
//
// Coder accepts "default" as another name of its first organization. In a spec, the alias is
// resolved. In an object's name it is rejected with an error that names the real one, because
// Kubernetes expects an object back under the name that the client sent.
func Organization(
	ctx context.Context, connection connections.Connection, inSpec, inName string,
) (coderd.Organization, error) {
	namePath, specPath := field.NewPath("metadata", "name"), field.NewPath("spec", "organization")
	found, err := connection.Client.OrganizationByName(ctx, inName)
	if coderd.IsNotFound(err) {
		return found, field.Invalid(namePath, inName, fmt.Sprintf("there is no organization %q in Coder", inName))
	}
	if err != nil {
		return found, err
	}
	if !strings.EqualFold(found.Name, inName) {
		return found, field.Invalid(namePath, inName, fmt.Sprintf(
			"%q is an alias of organization %q, and object names must contain the real name: use %q", inName, found.Name,
			strings.ToLower(found.Name)))
	}
	if inSpec == coderd.DefaultOrganization && !found.IsDefault && !strings.EqualFold(found.Name, inSpec) {
		return found, field.Invalid(specPath, inSpec, fmt.Sprintf(
			"the default organization is not %q, the organization in metadata.name", inName))
	}
	return found, nil
}
