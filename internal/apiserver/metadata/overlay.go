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

// managerCoder owns the status in managedFields. With one owner of something,
// server-side apply does not take the object for one that was never applied, so
// it does not report a conflict for every field of the spec.
const managerCoder = "coder"

// statusFields are all fields that managerCoder owns by default.
const statusFields = `{"f:status":{}}`

// apiVersion is written out, so that ten thousand objects share it.
const apiVersion = "aggregation.coder.com/v1alpha1"

// ManagedFields are those of an object that nobody has written through
// Kubernetes: Coder owns the status. They are not worth a record.
func ManagedFields() []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{{
		Manager:    managerCoder,
		Operation:  metav1.ManagedFieldsOperationUpdate,
		APIVersion: apiVersion,
		FieldsType: "FieldsV1",
		FieldsV1:   metav1.NewFieldsV1(statusFields),
	}}
}

// onlyDefault says that nobody but Coder's default entry owns fields.
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

// Keep fills a record with what is to be kept of an object's metadata. What the
// server puts on every object itself is left out: the labels of the control plane,
// the finalizer of workspaces, managed fields of Coder alone. The rest of the
// record, what it belongs to, its intent and its version, stays.
func Keep(obj metav1.Object, record *Record) {
	record.Labels = withoutOwn(obj.GetLabels())
	record.Annotations = nonEmpty(obj.GetAnnotations())
	record.Finalizers = nil
	for _, finalizer := range obj.GetFinalizers() {
		if finalizer != aggregationv1alpha1.FinalizerWorkspace {
			record.Finalizers = append(record.Finalizers, finalizer)
		}
	}
	record.OwnerReferences = copyOwners(obj.GetOwnerReferences())
	record.ManagedFields = nil
	if entries := obj.GetManagedFields(); !onlyDefault(entries) {
		record.ManagedFields = copyManagedFields(entries)
	}
	record.Generation = obj.GetGeneration()
	record.DeletionTimestamp = obj.GetDeletionTimestamp().DeepCopy()
	record.DeletionGracePeriodSeconds = nil
	if seconds := obj.GetDeletionGracePeriodSeconds(); seconds != nil {
		record.DeletionGracePeriodSeconds = ptr.To(*seconds)
	}
}

// Overlay lays a record over an object that was made from Coder. Labels and
// annotations of the record win over the object's, but for the labels of the
// control plane, which are always the server's. Finalizers come in addition.
// Whatever the record does not have stays as it is. Nothing of the record is
// shared with the object. A nil record changes nothing.
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
		obj.SetOwnerReferences(copyOwners(record.OwnerReferences))
	}
	if len(record.ManagedFields) > 0 {
		obj.SetManagedFields(copyManagedFields(record.ManagedFields))
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

// withoutOwn gives a copy without the labels that say where an object lives, nil
// where nothing is left.
func withoutOwn(labels map[string]string) map[string]string {
	kept := maps.Clone(labels)
	delete(kept, aggregationv1alpha1.LabelControlPlaneName)
	delete(kept, aggregationv1alpha1.LabelControlPlaneNamespace)
	return nonEmpty(kept)
}

// nonEmpty gives a copy, nil of an empty map.
func nonEmpty(in map[string]string) map[string]string {
	if len(in) == 0 {
		return nil
	}
	return maps.Clone(in)
}

// merged gives a new map of both, in which over wins.
func merged(under, over map[string]string) map[string]string {
	out := make(map[string]string, len(under)+len(over))
	maps.Copy(out, under)
	maps.Copy(out, over)
	return out
}

// union gives a new slice of what either has.
func union(first, second []string) []string {
	out := slices.Clone(first)
	for _, entry := range second {
		if !slices.Contains(out, entry) && entry != aggregationv1alpha1.FinalizerWorkspace {
			out = append(out, entry)
		}
	}
	return out
}
