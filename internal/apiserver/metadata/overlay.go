package metadata

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// managerCoder owns the status in managedFields. Server-side apply treats an object without managed
// fields as one that was never applied, and reports a conflict for every field of the spec. One
// entry prevents that.
const managerCoder = "coder"

// statusFields are the fields that managerCoder owns by default.
const statusFields = `{"f:status":{}}`

// apiVersion is a constant, so that ten thousand objects share the string.
const apiVersion = "aggregation.coder.com/v1alpha1"

// ManagedFields returns the managed fields of an object that was never written through Kubernetes:
// Coder owns the status. They are not stored in a record.
func ManagedFields() []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{{
		Manager:    managerCoder,
		Operation:  metav1.ManagedFieldsOperationUpdate,
		APIVersion: apiVersion,
		FieldsType: "FieldsV1",
		FieldsV1:   metav1.NewFieldsV1(statusFields),
	}}
}

// onlyDefault reports whether there is no entry besides Coder's default entry.
func onlyDefault(entries []metav1.ManagedFieldsEntry) bool {
	return len(entries) == 0 || len(entries) == 1 && isDefault(&entries[0])
}

func isDefault(entry *metav1.ManagedFieldsEntry) bool {
	if entry.Manager != managerCoder || entry.Operation != metav1.ManagedFieldsOperationUpdate || entry.Subresource != "" {
		return false
	}
	if entry.FieldsV1 == nil {
		return true
	}
	var compact bytes.Buffer
	return json.Compact(&compact, entry.FieldsV1.GetRawBytes()) == nil && compact.String() == statusFields
}

// Keep copies the metadata of an object to a record. It omits what the server itself adds to every
// object: the labels of the control plane, the finalizer of workspaces, and Coder's default managed
// fields. The other fields of the record, such as its intent and its version, do not change.
func Keep(obj metav1.Object, record *Record) {
	record.Labels = withoutOwn(obj.GetLabels())
	record.Annotations = nonEmpty(obj.GetAnnotations())
	record.Finalizers = nil
	for _, finalizer := range obj.GetFinalizers() {
		if finalizer != aggregationv1alpha1.FinalizerWorkspace {
			record.Finalizers = append(record.Finalizers, finalizer)
		}
	}
	record.OwnerReferences = deepCopies(obj.GetOwnerReferences())
	record.ManagedFields = nil
	if entries := obj.GetManagedFields(); !onlyDefault(entries) {
		record.ManagedFields = deepCopies(entries)
	}
	record.Generation = obj.GetGeneration()
	record.DeletionTimestamp = obj.GetDeletionTimestamp().DeepCopy()
	record.DeletionGracePeriodSeconds = nil
	if seconds := obj.GetDeletionGracePeriodSeconds(); seconds != nil {
		record.DeletionGracePeriodSeconds = ptr.To(*seconds)
	}
}

// Overlay applies a record to an object that was converted from Coder. Labels and annotations of
// the record take precedence, except for the labels of the control plane, which always come from
// the server. Finalizers are added. Fields that the record does not set do not change. The object
// shares no memory with the record. A nil record changes nothing.
func Overlay(obj metav1.Object, record *Record) {
	if record == nil {
		return
	}
	if labels := withoutOwn(record.Labels); labels != nil {
		obj.SetLabels(merged(obj.GetLabels(), labels))
	}
	if len(record.Annotations) > 0 {
		obj.SetAnnotations(merged(obj.GetAnnotations(), record.Annotations))
	}
	if len(record.Finalizers) > 0 {
		obj.SetFinalizers(union(obj.GetFinalizers(), record.Finalizers))
	}
	if len(record.OwnerReferences) > 0 {
		obj.SetOwnerReferences(deepCopies(record.OwnerReferences))
	}
	if len(record.ManagedFields) > 0 {
		obj.SetManagedFields(deepCopies(record.ManagedFields))
	}
	if record.Generation > 0 {
		obj.SetGeneration(record.Generation)
	}
	if record.DeletionTimestamp != nil {
		obj.SetDeletionTimestamp(record.DeletionTimestamp.DeepCopy())
	}
	if record.DeletionGracePeriodSeconds != nil {
		obj.SetDeletionGracePeriodSeconds(ptr.To(*record.DeletionGracePeriodSeconds))
	}
}

// withoutOwn returns a copy without the labels of the control plane, or nil if nothing is left.
func withoutOwn(labels map[string]string) map[string]string {
	kept := maps.Clone(labels)
	for _, label := range aggregationv1alpha1.ControlPlaneLabels() {
		delete(kept, label)
	}
	return nonEmpty(kept)
}

// nonEmpty returns a copy, or nil for an empty map.
func nonEmpty(in map[string]string) map[string]string {
	if len(in) == 0 {
		return nil
	}
	return maps.Clone(in)
}

// merged returns a new map with the entries of both. Entries of over take precedence.
func merged(under, over map[string]string) map[string]string {
	out := make(map[string]string, len(under)+len(over))
	maps.Copy(out, under)
	maps.Copy(out, over)
	return out
}

// union returns a new slice with the entries of both, except the finalizer of workspaces in second.
func union(first, second []string) []string {
	out := slices.Clone(first)
	for _, entry := range second {
		if !slices.Contains(out, entry) && entry != aggregationv1alpha1.FinalizerWorkspace {
			out = append(out, entry)
		}
	}
	return out
}
