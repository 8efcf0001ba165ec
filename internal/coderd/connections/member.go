package connections

import (
	"k8s.io/apimachinery/pkg/types"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// Member is a control plane whose objects are served.
type Member struct {
	// ControlPlane is its namespace and name. A static member has only the namespace.
	ControlPlane types.NamespacedName
	// UID distinguishes it from an earlier control plane of the same name. A static member has
	// none.
	UID types.UID
	// NamePrefix is the prefix of its objects' names: empty, or "<control plane>.". It does not
	// change once it is set in the status.
	NamePrefix string
	// Named reports that NamePrefix is set. Without it there is no connection.
	Named bool
	// NeverServed reports that there was never a connection, so that no client can have seen its
	// objects.
	NeverServed bool
	// PodNamespaces are the namespaces in which pods with the label of a workspace are considered:
	// the control plane's own, and those in which spec.rbac allows Coder to create workspaces and
	// that this process watches. A pod in any other namespace may carry a forged label.
	PodNamespaces []string
	// Rules are spec.identity.rules. They must not be modified.
	Rules []coderv1alpha1.IdentityRule
	// Connection is nil if there is none at the moment.
	Connection *Connection
	// Reason is a readable reason why there is no connection.
	Reason string
	// Deleting reports that the control plane is being deleted: its objects are released, and it
	// has no connection any more.
	Deleting bool
}
