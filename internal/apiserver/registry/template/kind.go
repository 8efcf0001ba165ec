package template

import (
	"context"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectlog"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// Config is what templates are served with.
type Config struct {
	Connections connections.Provider
	Records     metadata.Records
	Typer       runtime.ObjectTyper
	Clock       clock.PassiveClock
	// Hint tells the mirror that a template changes. It may be nil.
	Hint func(controlPlane types.NamespacedName, id uuid.UUID)
	// ReadSecret reads one key of a Secret. Its errors are API statuses.
	ReadSecret func(ctx context.Context, namespace, name, key string) (string, error)
	// MayReadSecret is nil where the user may get the Secret. Its errors are API
	// statuses. It may be nil itself, where nobody is asked.
	MayReadSecret func(ctx context.Context, who user.Info, namespace, secret string) error
}

// Kind is all that templates are.
type Kind struct {
	config Config
}

// New makes the kind.
func New(config Config) *Kind { return &Kind{config: config} }

// Object implements mirror.Kind.
func (k *Kind) Object(
	ctx context.Context, connection connections.Connection, item coderd.Template, record *metadata.Record, previous objectlog.Object,
) (objectlog.Object, error) {
	return nil, nil
}

// Settle implements mirror.Kind.
func (k *Kind) Settle(
	ctx context.Context, connection connections.Connection, item coderd.Template, record *metadata.Record,
) (again bool, err error) {
	return false, nil
}

// WithSync implements mirror.Kind.
func (k *Kind) WithSync(previous objectlog.Object, reachable bool, since time.Time, message string) objectlog.Object {
	return nil
}

// Write implements objectlog.Writer.
func (k *Kind) Write(ctx context.Context, key string, current, wanted objectlog.Object) (objectlog.Object, error) {
	return nil, nil
}

// CheckCreate implements registry.Checker.
func (k *Kind) CheckCreate(ctx context.Context, obj runtime.Object) error { return nil }

// CheckUpdate implements registry.Checker.
func (k *Kind) CheckUpdate(ctx context.Context, wanted, current runtime.Object) error { return nil }

// Strategy is that of the Store.
func (k *Kind) Strategy() registry.FullStrategy { return nil }

// Table makes what kubectl get shows.
func (k *Kind) Table() rest.TableConvertor { return nil }

// Prefix gives the part of an object's name that tells its control plane.
func (k *Kind) Prefix(name string) string { return "" }

// Attributes are what selectors match.
func (k *Kind) Attributes(obj runtime.Object) (labels.Set, fields.Set, error) { return nil, nil, nil }

// FieldLabel says which fields a selector may name: for the scheme.
func FieldLabel(label, value string) (string, string, error) { return label, value, nil }

// Store is what the subresources stand on.
type Store interface {
	rest.Getter
	Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
		updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error)
}

// Subresources are the storages below codertemplates, by name.
func (k *Kind) Subresources(store Store) map[string]rest.Storage { return nil }
