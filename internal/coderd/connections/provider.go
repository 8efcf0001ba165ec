package connections

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

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
	// All is like ForNamespace for the whole cluster, sorted by namespace first.
	All(ctx context.Context) ([]Connection, error)
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
