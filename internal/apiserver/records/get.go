package records

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// Get implements storage.Interface. Without a resourceVersion, it is a quorum read of etcd.
func (s *Store) Get(ctx context.Context, key string, options storage.GetOptions, out runtime.Object) error {
	key, err := s.key(key)
	if err != nil {
		return err
	}
	if _, err := s.versioner.ParseResourceVersion(options.ResourceVersion); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	record, err := s.get(ctx, key, options.ResourceVersion)
	if err != nil {
		return err
	}
	if record == nil {
		if options.IgnoreNotFound {
			return runtime.SetZeroValue(out)
		}
		return storage.NewKeyNotFoundError(key, 0)
	}
	if err := s.decode(ctx, record, out); err != nil {
		return readError(ctx, key, err)
	}
	return nil
}

// get returns the record of a key, or nil if there is no object.
func (s *Store) get(ctx context.Context, key, resourceVersion string) (*Record, error) {
	namespace, name := s.Locate(key)
	record, err := s.config.Cluster.Get(ctx, namespace, name, resourceVersion)
	switch {
	case isAbsent(err):
		return nil, nil
	case err != nil:
		return nil, unavailable(ctx, "reading "+key, err)
	case record.Object == "":
		return nil, nil
	}
	return record, nil
}

// isAbsent reports whether the record does not exist. If the resource itself does not exist,
// NotFound has no name.
func isAbsent(err error) bool {
	if !apierrors.IsNotFound(err) {
		return false
	}
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Name != ""
}

// assign sets out to the object, which the caller must own.
func assign(object, out runtime.Object) error {
	target, err := conversion.EnforcePtr(out)
	if err != nil {
		return fmt.Errorf("writing the result into %T: %w", out, err)
	}
	value := reflect.ValueOf(object).Elem()
	if target.Type() != value.Type() {
		return fmt.Errorf("writing the result into %T: the record holds %T", out, object)
	}
	target.Set(value)
	return nil
}
