package metadata

import (
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// text is the kept metadata as it is stored in a record.
type text struct {
	Labels                     map[string]string           `json:"labels,omitempty"`
	Annotations                map[string]string           `json:"annotations,omitempty"`
	Finalizers                 []string                    `json:"finalizers,omitempty"`
	OwnerReferences            []metav1.OwnerReference     `json:"ownerReferences,omitempty"`
	ManagedFields              []metav1.ManagedFieldsEntry `json:"managedFields,omitempty"`
	Generation                 int64                       `json:"generation,omitempty"`
	DeletionTimestamp          *metav1.Time                `json:"deletionTimestamp,omitempty"`
	DeletionGracePeriodSeconds *int64                      `json:"deletionGracePeriodSeconds,omitempty"`
	Intent                     json.RawMessage             `json:"intent,omitempty"`
}

// Read decodes a text. An empty text is an empty record.
func Read(kept string) (*Record, error) {
	if kept == "" {
		return &Record{}, nil
	}
	var t text
	if err := json.Unmarshal([]byte(kept), &t); err != nil {
		return nil, fmt.Errorf("what it keeps cannot be read: %w", err)
	}
	r := &Record{
		Labels: t.Labels, Annotations: t.Annotations, Finalizers: t.Finalizers, OwnerReferences: t.OwnerReferences,
		ManagedFields: t.ManagedFields, Generation: t.Generation, DeletionTimestamp: t.DeletionTimestamp,
		DeletionGracePeriodSeconds: t.DeletionGracePeriodSeconds, Intent: t.Intent,
	}
	return r, normalize(r)
}

// Text encodes a record, which must be normalized. It returns "" if there is nothing to keep.
func (r *Record) Text() (string, error) {
	if r.IsEmpty() {
		return "", nil
	}
	data, err := json.Marshal(text{
		Labels: r.Labels, Annotations: r.Annotations, Finalizers: r.Finalizers, OwnerReferences: r.OwnerReferences,
		ManagedFields: r.ManagedFields, Generation: r.Generation, DeletionTimestamp: r.DeletionTimestamp,
		DeletionGracePeriodSeconds: r.DeletionGracePeriodSeconds, Intent: r.Intent,
	})
	return string(data), err
}

// Normalize converts equivalent records to the same form, so that they can be compared. Its error
// is an API status: Invalid if the record is too large.
func Normalize(record *Record) error {
	if record.Name == "" || record.ControlPlane.Namespace == "" {
		return apierrors.NewInternalError(errors.New("what is to be kept does not name its object"))
	}
	if err := normalize(record); err != nil {
		return apierrors.NewInternalError(err)
	}
	return checkSize(record)
}

// Same reports whether two normalized records are equal, apart from version and creation time.
func Same(a, b *Record) bool { return same(a, b) }
