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
	// ControlPlane is its name. A static connection has only the namespace.
	ControlPlane types.NamespacedName
	// NamePrefix stands in front of the names of its objects: empty, or
	// "<control plane>.".
	NamePrefix string
	// AccessURL is where users reach Coder, and WildcardHost the host name of apps with a
	// host of their own, for example *.coder.example.com. Both may be empty.
	AccessURL, WildcardHost string
	// UID tells the control plane from another one that had the name before. A static one
	// has none.
	UID types.UID
	// Rules are spec.identity.rules. They may not be written to.
	Rules []coderv1alpha1.IdentityRule
	// Client acts as the operator.
	Client *coderd.Client
}

// Provider gives the connections.
type Provider interface {
	// ForNamespace gives the connections of one namespace, sorted by the name of
	// the control plane. Without a control plane there it gives nil and nil.
	// Where one that should be served is not ready, it gives the others and an
	// *UnavailableError.
	ForNamespace(ctx context.Context, namespace string) ([]Connection, error)
	// All does the same for the whole cluster, sorted by namespace first.
	All(ctx context.Context) ([]Connection, error)
	// Members gives all control planes that are served, also those that cannot be
	// called now or are being deleted, sorted by namespace and name. After an error
	// nothing is known: it does not mean that there are none.
	Members(ctx context.Context) ([]Member, error)
}

// UnavailableError says which control planes should be served and are not.
type UnavailableError struct {
	// ControlPlanes has one entry "namespace/name: reason" for each.
	ControlPlanes []string
	// RetryAfter is when it makes sense to ask again.
	RetryAfter time.Duration
}

// Error implements error.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("control planes that cannot be reached yet: %s; try again in %s",
		strings.Join(e.ControlPlanes, "; "), e.RetryAfter)
}
