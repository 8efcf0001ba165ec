package metadata

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// normalize converts equivalent records to the same form, so that they can be compared. Times have
// whole seconds, and JSON has sorted keys.
func normalize(record *Record) error {
	record.Labels, record.Annotations = withoutOwn(record.Labels), nonEmpty(record.Annotations)
	record.Finalizers = slices.DeleteFunc(slices.Clone(record.Finalizers), func(f string) bool { return f == aggregationv1alpha1.FinalizerWorkspace })
	if len(record.Finalizers) == 0 {
		record.Finalizers = nil
	}
	if len(record.OwnerReferences) == 0 {
		record.OwnerReferences = nil
	}
	record.DeletionTimestamp = seconds(record.DeletionTimestamp)
	if err := normalizeManagedFields(record); err != nil {
		return err
	}
	intent, err := canonical(record.Intent)
	if err != nil {
		return fmt.Errorf("its intent is no JSON object: %w", err)
	}
	record.Intent = intent
	return nil
}

func normalizeManagedFields(record *Record) error {
	if onlyDefault(record.ManagedFields) {
		record.ManagedFields = nil
	}
	for i := range record.ManagedFields {
		entry := &record.ManagedFields[i]
		entry.Time = seconds(entry.Time)
		if entry.FieldsV1 == nil {
			continue
		}
		fields, err := canonical(entry.FieldsV1.GetRawBytes())
		if err != nil {
			return fmt.Errorf("the managed fields of %q are no JSON object: %w", entry.Manager, err)
		}
		if fields == nil {
			fields = []byte("{}")
		}
		entry.FieldsV1 = metav1.NewFieldsV1(string(fields))
	}
	return nil
}

func seconds(t *metav1.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return ptr.To(t.Rfc3339Copy())
}

// canonical returns a JSON object in the form in which the API server returns it, or nil if it has
// no fields.
func canonical(raw []byte) ([]byte, error) {
	if noIntent(raw) {
		return nil, nil
	}
	var fields map[string]any
	if err := utiljson.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	if len(fields) == 0 {
		return nil, nil
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(fields); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

// Same reports whether two normalized records are equal, apart from version and creation time.
func Same(a, b *Record) bool {
	left, right := *a, *b
	for _, record := range []*Record{&left, &right} {
		record.Version, record.CreatedAt = "", metav1.Time{}
	}
	return equality.Semantic.DeepEqual(left, right)
}

// largest is Kubernetes' limit for the annotations of an object, in bytes. Managed fields and
// intents have the same limit.
const largest = 256 * 1024

const (
	// MaxRecord is the largest size of the JSON of a record's spec. etcd accepts 1.5 MiB in one
	// request, which also has the metadata of the record.
	MaxRecord = 1536<<10 - 64<<10
	// maxText is the largest size of a Record in the JSON of the stored record, in which a quotation
	// mark needs two bytes or more. The object contains most of it again. At least 192 KiB are left for
	// the other fields of the object.
	maxText = (MaxRecord - 192<<10) / 2
)

// checkSize returns an error if a part of the record is too large.
func checkSize(record *Record) error {
	path := field.NewPath("metadata")
	var errs field.ErrorList
	check := func(path *field.Path, size int, biggest string) {
		if size > largest {
			errs = append(errs, field.Invalid(path, fmt.Sprintf("%d bytes", size), fmt.Sprintf("must not be larger than %d bytes; %s", largest, biggest)))
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

	check(field.NewPath("spec"), len(record.Intent), "this is the size of the changes that are not in Coder yet; split them into smaller requests")
	if size := sizeOf(record); len(errs) == 0 && size > maxText {
		errs = append(errs, field.Invalid(path, fmt.Sprintf("%d bytes", size), fmt.Sprintf(
			"labels, annotations, finalizers, owner references, managed fields, and changes that are not in Coder yet must not be larger than %d bytes together, in JSON in which each quotation mark needs four bytes", maxText)))
	}
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: aggregationv1alpha1.GroupVersion.Group, Kind: record.Kind}, record.Name, errs)
}

// smallIntent is the largest intent that a record may get although it is too large: a deletion has one.
const smallIntent = 4 << 10

// Enlarges reports whether the metadata of clients in a normalized record is larger than it was before, or
// the intent, unless that is small. The generation and the deletion of an object do not count: they are recorded
// in any case.
func (r *Record) Enlarges(before *Record) bool {
	return len(r.Intent) > max(smallIntent, len(before.Intent)) || sizeOf(r.ofClients()) > sizeOf(before.ofClients())
}

// ofClients returns the record without what the operator sets.
func (r *Record) ofClients() *Record {
	return &Record{
		Labels: r.Labels, Annotations: r.Annotations, Finalizers: r.Finalizers, OwnerReferences: r.OwnerReferences, ManagedFields: r.ManagedFields,
	}
}

// sizeOf returns the size of a normalized record in the JSON of the stored record.
func sizeOf(record *Record) int {
	text, err := record.Text()
	if err != nil || 6*len(text) <= maxText {
		return len(text)
	}
	data, err := json.Marshal(text)
	if err != nil {
		return 0
	}
	return len(data)
}

// Read decodes a text. An empty text is an empty record.
func Read(kept string) (*Record, error) {
	r := &Record{}
	if kept == "" {
		return r, nil
	}
	if err := json.Unmarshal([]byte(kept), r); err != nil {
		return nil, fmt.Errorf("the stored metadata cannot be decoded: %w", err)
	}
	return r, normalize(r)
}

// Text encodes a record, which must be normalized. It returns "" if there is nothing to keep.
func (r *Record) Text() (string, error) {
	if r.IsEmpty() {
		return "", nil
	}
	data, err := json.Marshal(r)
	return string(data), err
}

// Normalize converts equivalent records to the same form, so that they can be compared. Its error
// is an API status: Invalid if the record is too large.
func Normalize(record *Record) error {
	if record.Name == "" || record.ControlPlane.Namespace == "" {
		return apierrors.NewInternalError(errors.New("the metadata record does not name its object"))
	}
	if err := normalize(record); err != nil {
		return apierrors.NewInternalError(err)
	}
	return checkSize(record)
}
