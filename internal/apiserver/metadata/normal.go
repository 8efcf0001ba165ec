package metadata

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
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

// same reports whether two normalized records are equal, apart from version and creation time.
func same(a, b *Record) bool {
	left, right := *a, *b
	for _, record := range []*Record{&left, &right} {
		record.Version, record.CreatedAt = "", metav1.Time{}
	}
	return equality.Semantic.DeepEqual(left, right)
}
