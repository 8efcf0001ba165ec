package connections

import (
	"k8s.io/apimachinery/pkg/types"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// Member is a control plane whose objects are served.
type Member struct {
	// ControlPlane is its name. A static one has only the namespace.
	ControlPlane types.NamespacedName
	// UID tells it from another one that had the name before. A static one has none.
	UID types.UID
	// NamePrefix stands in front of the names of its objects: empty, or
	// "<control plane>.". It never changes once it is settled.
	NamePrefix string
	// Named says that NamePrefix is settled. Without it there is no connection either.
	Named bool
	// NeverServed says that there was never a connection, so that nobody can have seen
	// its objects.
	NeverServed bool
	// PodNamespaces are those in which pods with the label of a workspace count: the
	// control plane's own, and those in which spec.rbac lets Coder make workspaces and
	// that this process watches. A
	// pod elsewhere may carry a forged label.
	PodNamespaces []string
	// Rules are spec.identity.rules. They may not be written to.
	Rules []coderv1alpha1.IdentityRule
	// Connection is nil where there is none now.
	Connection *Connection
	// Reason says for people why there is none.
	Reason string
	// Deleting says that it is being deleted: its objects are released, and it has no
	// connection any more.
	Deleting bool
}
