package connections

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

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

// All implements Provider.
func (s *Static) All(context.Context) ([]Connection, error) {
	return []Connection{s.connection}, nil
}

// Members implements Provider.
func (s *Static) Members(context.Context) ([]Member, error) {
	return []Member{{ControlPlane: s.connection.ControlPlane, Named: true, Connection: &s.connection,
		PodNamespaces: []string{s.connection.ControlPlane.Namespace}}}, nil
}
