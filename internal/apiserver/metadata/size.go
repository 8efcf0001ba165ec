package metadata

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// largest is Kubernetes' limit for the annotations of an object, in bytes. Managed fields and
// intents have the same limit, so that a record fits into etcd's 1.5 MiB.
const largest = 256 * 1024

// checkSize returns an error if a part of the record is too large.
func checkSize(record *Record) error {
	path := field.NewPath("metadata")
	var errs field.ErrorList
	check := func(path *field.Path, size int, biggest string) {
		if size > largest {
			errs = append(errs, field.Invalid(path, fmt.Sprintf("%d bytes", size), fmt.Sprintf("may not be larger than %d bytes; %s", largest, biggest)))
		}
	}
	var total, most int
	var biggest string
	for key, value := range record.Annotations {
		size := len(key) + len(value)
		if total += size; size > most || size == most && key < biggest {
			most, biggest = size, key
		}
	}
	check(path.Child("annotations"), total, fmt.Sprintf("the largest is %q with %d bytes", biggest, most))

	total, most, biggest = 0, 0, ""
	for i := range record.ManagedFields {
		entry := &record.ManagedFields[i]
		size := len(entry.Manager)
		if entry.FieldsV1 != nil {
			size += len(entry.FieldsV1.GetRawBytes())
		}
		if total += size; size > most {
			most, biggest = size, entry.Manager
		}
	}
	check(path.Child("managedFields"), total, fmt.Sprintf("the largest are those of the manager %q with %d bytes; fewer managers, or fewer labels and annotations, make them smaller", biggest, most))

	check(field.NewPath("spec"), len(record.Intent), "that is what has to be remembered until it is in Coder; write it in smaller parts")
	if len(errs) == 0 {
		return nil
	}
	return errors.NewInvalid(schema.GroupKind{Group: aggregationv1alpha1.GroupVersion.Group, Kind: record.Kind}, record.Name, errs)
}
