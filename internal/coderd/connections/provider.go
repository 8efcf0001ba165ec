package connections

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// Connection is a control plane whose Coder can be called.
type Connection struct {
	// ControlPlane is its namespace and name. A static connection has only the namespace.
	ControlPlane types.NamespacedName
	// NamePrefix is the prefix of its objects' names: empty, or "<control plane>.".
	NamePrefix string
	// AccessURL is the URL at which users reach Coder. WildcardHost is the host name of apps with a
	// host name of their own, for example *.coder.example.com. Both may be empty.
	AccessURL, WildcardHost string
	// UID distinguishes the control plane from an earlier one of the same name. A static connection
	// has none.
	UID types.UID
	// Rules are spec.identity.rules. They must not be modified.
	Rules []coderv1alpha1.IdentityRule
	// Client authenticates as the operator.
	Client *coderd.Client
}

// Provider provides the connections.
type Provider interface {
	// ForNamespace returns the connections of one namespace, sorted by the name of the control
	// plane. It returns nil and nil if the namespace has no control plane. If one that should be
	// served is not ready, it returns the others and an *UnavailableError.
	ForNamespace(ctx context.Context, namespace string) ([]Connection, error)
	// Members returns all control planes that are served, including those that cannot be called now
	// or are being deleted, sorted by namespace and name. An error means that the members are
	// unknown, not that there are none.
	Members(ctx context.Context) ([]Member, error)
}

// UnavailableError lists the control planes that should be served and are not.
type UnavailableError struct {
	// ControlPlanes has one entry "namespace/name: reason" for each of them.
	ControlPlanes []string
	// RetryAfter is the time to wait before the next attempt.
	RetryAfter time.Duration
}

// Error implements error.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("control planes that cannot be reached yet: %s; try again in %s",
		strings.Join(e.ControlPlanes, "; "), e.RetryAfter)
}

// Static provides the one Coder that was configured on the command line. It belongs to one
// namespace; all others are empty.
type Static struct {
	connection Connection
}

var _ Provider = (*Static)(nil)

// NewStatic returns a Static that provides client in one namespace.
func NewStatic(namespace string, client *coderd.Client) *Static {
	return &Static{connection: Connection{
		ControlPlane: types.NamespacedName{Namespace: namespace},
		Client:       client,
	}}
}

// ForNamespace implements Provider.
func (s *Static) ForNamespace(_ context.Context, namespace string) ([]Connection, error) {
	if namespace != s.connection.ControlPlane.Namespace {
		return nil, nil
	}
	return []Connection{s.connection}, nil
}

// Members implements Provider.
func (s *Static) Members(context.Context) ([]Member, error) {
	return []Member{{ControlPlane: s.connection.ControlPlane, Named: true, Connection: &s.connection,
		PodNamespaces: []string{s.connection.ControlPlane.Namespace}}}, nil
}

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
	// the control plane's own, and those in which the permissions of spec.rbac are granted and that
	// this process watches. A pod in any other namespace may carry a forged label.
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

// Serves reports whether a namespace has a control plane that is served and whose name prefix is
// set. It reads only the cache, and no token.
func (d *Dynamic) Serves(ctx context.Context, namespace string) (bool, error) {
	if !d.Knows(namespace) {
		return false, nil
	}
	list, err := d.list(ctx, client.InNamespace(namespace))
	if err != nil {
		return false, fmt.Errorf("namespace %q: %w", namespace, err)
	}
	for i := range list {
		cp := &list[i]
		if Served(cp) && cp.Status.ObjectNamePrefix != nil {
			return true, nil
		}
	}
	return false, nil
}

// Serves reports whether namespace is the namespace of the one Coder.
func (s *Static) Serves(_ context.Context, namespace string) (bool, error) {
	return namespace == s.connection.ControlPlane.Namespace, nil
}

// Knows returns false, because there are no control planes.
func (*Static) Knows(string) bool { return false }
