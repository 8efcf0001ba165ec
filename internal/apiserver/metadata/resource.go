package metadata

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	metadatav1alpha1 "github.com/coder-k8s/coder-k8s/api/metadata/v1alpha1"
)

// The kinds of objects that records are kept of, and of the resource of a record.
const (
	kindWorkspace = "CoderWorkspace"
	kindTemplate  = "CoderTemplate"
	resourceKind  = "CoderObjectMetadata"
)

// Resource is a CoderObjectMetadata whose spec was not looked into yet: one that
// cannot be read must not make the list unreadable that it is in.
type Resource struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec json.RawMessage `json:"spec,omitempty"`
}

// DeepCopy gives a resource that can be changed.
func (r *Resource) DeepCopy() *Resource {
	if r == nil {
		return nil
	}
	out := &Resource{TypeMeta: r.TypeMeta, Spec: slices.Clone(r.Spec)}
	out.ObjectMeta = *r.ObjectMeta.DeepCopy()
	return out
}

// DeepCopyObject implements runtime.Object.
func (r *Resource) DeepCopyObject() runtime.Object { return r.DeepCopy() }

// ResourceList is a list of them.
type ResourceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Resource `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *ResourceList) DeepCopyObject() runtime.Object {
	out := &ResourceList{TypeMeta: l.TypeMeta, Items: make([]Resource, len(l.Items))}
	l.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopy()
	}
	return out
}

// prefix begins the names of resources of a kind.
func prefix(kind string) (string, error) {
	switch kind {
	case kindWorkspace:
		return "ws-", nil
	case kindTemplate:
		return "tpl-", nil
	}
	return "", fmt.Errorf("%q is no kind that records are kept of; there are %s and %s",
		kind, kindWorkspace, kindTemplate)
}

// resourceKey is where the resource of a record is. Names in Coder may be such as
// Kubernetes does not take, so a pending one is found by a hash.
func resourceKey(record *Record) (types.NamespacedName, error) {
	begin, err := prefix(record.Kind)
	if err != nil {
		return types.NamespacedName{}, err
	}
	key := types.NamespacedName{Namespace: record.ControlPlane.Namespace}
	if !record.Pending() {
		key.Name = begin + string(record.UID)
		return key, nil
	}
	sum := sha256.Sum256([]byte(record.ControlPlane.Name + "/" + record.Name))
	key.Name = begin + "pending-" + hex.EncodeToString(sum[:16])
	return key, nil
}

// Encode makes the resource of a record. Its Version becomes the resource's.
func Encode(record *Record) (*Resource, error) { return encode(record, "") }

func encode(record *Record, pendingUID types.UID) (*Resource, error) {
	key, err := resourceKey(record)
	if err != nil {
		return nil, err
	}
	spec := metadatav1alpha1.CoderObjectMetadataSpec{
		ControlPlane: record.ControlPlane.Name,
		Kind:         record.Kind,
		Name:         record.Name,
		UID:          string(record.UID),
		PendingUID:   string(pendingUID),
		Metadata: metadatav1alpha1.KeptMetadata{
			Labels: record.Labels, Annotations: record.Annotations, Finalizers: record.Finalizers, OwnerReferences: record.OwnerReferences,
			Generation: record.Generation, DeletionTimestamp: record.DeletionTimestamp, DeletionGracePeriodSeconds: record.DeletionGracePeriodSeconds,
		},
	}
	for i := range record.ManagedFields {
		spec.Metadata.ManagedFields = append(spec.Metadata.ManagedFields, encodeEntry(&record.ManagedFields[i]))
	}
	if !noIntent(record.Intent) {
		spec.Intent = &runtime.RawExtension{Raw: record.Intent}
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	return &Resource{
		TypeMeta:   metav1.TypeMeta{APIVersion: metadatav1alpha1.GroupVersion.String(), Kind: resourceKind},
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, ResourceVersion: record.Version},
		Spec:       raw,
	}, nil
}

func encodeEntry(entry *metav1.ManagedFieldsEntry) metadatav1alpha1.ManagedFieldsEntry {
	out := metadatav1alpha1.ManagedFieldsEntry{
		Manager: entry.Manager, Operation: entry.Operation, APIVersion: entry.APIVersion, Time: entry.Time,
		FieldsType: entry.FieldsType, Subresource: entry.Subresource,
	}
	if entry.FieldsV1 != nil {
		out.FieldsV1 = &runtime.RawExtension{Raw: entry.FieldsV1.GetRawBytes()}
	}
	return out
}

// Decode reads the record of a resource.
func (r *Resource) Decode() (*Record, error) {
	record, _, err := decode(r)
	return record, err
}

func decode(r *Resource) (record *Record, pendingUID types.UID, err error) {
	var spec metadatav1alpha1.CoderObjectMetadataSpec
	if err := json.Unmarshal(r.Spec, &spec); err != nil {
		return nil, "", fmt.Errorf("its spec cannot be read: %w", err)
	}
	kept := &spec.Metadata
	record = &Record{
		ControlPlane: types.NamespacedName{Namespace: r.Namespace, Name: spec.ControlPlane},
		Kind:         spec.Kind, Name: spec.Name, UID: types.UID(spec.UID),
		Labels: kept.Labels, Annotations: kept.Annotations, Finalizers: kept.Finalizers, OwnerReferences: kept.OwnerReferences,
		Generation: kept.Generation, DeletionTimestamp: kept.DeletionTimestamp, DeletionGracePeriodSeconds: kept.DeletionGracePeriodSeconds,
		CreatedAt: r.CreationTimestamp, Version: r.ResourceVersion,
	}
	for i := range kept.ManagedFields {
		record.ManagedFields = append(record.ManagedFields, decodeEntry(&kept.ManagedFields[i]))
	}
	if spec.Intent != nil {
		record.Intent = spec.Intent.Raw
	}
	if err := normalize(record); err != nil {
		return nil, "", err
	}
	switch key, err := resourceKey(record); {
	case err != nil:
		return nil, "", err
	case key.Name != r.Name:
		return nil, "", fmt.Errorf("what it keeps belongs into %s", key.Name)
	}
	return record, types.UID(spec.PendingUID), nil
}

func decodeEntry(entry *metadatav1alpha1.ManagedFieldsEntry) metav1.ManagedFieldsEntry {
	out := metav1.ManagedFieldsEntry{
		Manager: entry.Manager, Operation: entry.Operation, APIVersion: entry.APIVersion, Time: entry.Time,
		FieldsType: entry.FieldsType, Subresource: entry.Subresource,
	}
	if entry.FieldsV1 != nil {
		out.FieldsV1 = metav1.NewFieldsV1(string(entry.FieldsV1.Raw))
	}
	return out
}
