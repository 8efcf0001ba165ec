package workspace

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectlog"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

type valueCache struct{}

func newValueCache() *valueCache { return nil }

// Object implements mirror.Kind.
func (k *Kind) Object(
	ctx context.Context, connection connections.Connection, item coderd.Workspace, record *metadata.Record, previous objectlog.Object,
) (objectlog.Object, error) {
	return nil, nil
}

// Settle implements mirror.Kind.
func (k *Kind) Settle(
	ctx context.Context, connection connections.Connection, item coderd.Workspace, record *metadata.Record,
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

// Attributes are what selectors match.
func Attributes(obj runtime.Object) (labels.Set, fields.Set, error) { return nil, nil, nil }

// AddToScheme registers what clients may ask of workspaces beyond the types: the
// fields of selectors, the query of the log, and the Scale.
func AddToScheme(s *runtime.Scheme) error { return nil }

// Store is what the subresources stand on.
type Store interface {
	rest.Getter
	Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
		updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error)
}

// Subresources are the storages below coderworkspaces, by name.
func (k *Kind) Subresources(store Store) map[string]rest.Storage { return nil }
