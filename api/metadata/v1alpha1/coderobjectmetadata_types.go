package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// CoderObjectMetadata is the metadata of a workspace or a template that Kubernetes has and Coder
// cannot store: labels, annotations, finalizers, owners, managed fields, generation and deletion.
// The aggregated API creates one if there is something to store. Deleting one loses that metadata
// and nothing else.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=coderobjectmetadata,singular=coderobjectmetadata,scope=Namespaced
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.kind`
// +kubebuilder:printcolumn:name="Object",type=string,JSONPath=`.spec.name`
// +kubebuilder:printcolumn:name="ControlPlane",type=string,priority=1,JSONPath=`.spec.controlPlane`
// +kubebuilder:printcolumn:name="Deleted",type=date,priority=1,JSONPath=`.spec.metadata.deletionTimestamp`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="has(self.spec.uid) ? self.metadata.name == (self.spec.kind == 'CoderWorkspace' ? 'ws-' : 'tpl-') + self.spec.uid : self.metadata.name.startsWith((self.spec.kind == 'CoderWorkspace' ? 'ws' : 'tpl') + '-pending-')",message="metadata.name must be ws- or tpl- and spec.uid, or begin with ws-pending- or tpl-pending- where spec.uid is not set"
type CoderObjectMetadata struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec CoderObjectMetadataSpec `json:"spec"`
}

// CoderObjectMetadataList is a list of CoderObjectMetadata objects.
//
// +kubebuilder:object:root=true
type CoderObjectMetadataList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CoderObjectMetadata `json:"items"`
}

// CoderObjectMetadataSpec is the stored metadata, and the object that it belongs to.
//
// +kubebuilder:validation:XValidation:rule="self.kind == oldSelf.kind",message="kind cannot be changed: delete this record instead"
// +kubebuilder:validation:XValidation:rule="has(self.controlPlane) == has(oldSelf.controlPlane) && (!has(self.controlPlane) || self.controlPlane == oldSelf.controlPlane)",message="controlPlane cannot be changed: delete this record instead"
type CoderObjectMetadataSpec struct {
	// ControlPlane is the name of the object's CoderControlPlane in this namespace. It is unset if
	// the Coder is configured without such a resource.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ControlPlane string `json:"controlPlane,omitempty"`
	// Kind is the kind of the object.
	// +kubebuilder:validation:Enum=CoderWorkspace;CoderTemplate
	Kind string `json:"kind"`
	// Name is the name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// UID is the UID of the object, which is its id in Coder. It is unset while the object is being
	// created in Coder.
	// +optional
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$')",message="must be a UUID in lower case"
	UID string `json:"uid,omitempty"`
	// PendingUID is the UID of the record that this one replaces. That record existed while the
	// object was being created.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	PendingUID string `json:"pendingUID,omitempty"`

	// Metadata is merged into the object's own metadata.
	// +optional
	// +structType=atomic
	Metadata KeptMetadata `json:"metadata,omitzero"`
	// Intent is state of the operator for the object: changes that are not applied to Coder yet,
	// and values to remember.
	// +optional
	// +structType=atomic
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Intent *runtime.RawExtension `json:"intent,omitempty"`
}

// KeptMetadata contains fields of an object's metadata.
type KeptMetadata struct {
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// +optional
	// +listType=atomic
	Finalizers []string `json:"finalizers,omitempty"`
	// +optional
	// +listType=atomic
	OwnerReferences []metav1.OwnerReference `json:"ownerReferences,omitempty"`
	// +optional
	// +listType=atomic
	ManagedFields []ManagedFieldsEntry `json:"managedFields,omitempty"`
	// +optional
	// +kubebuilder:validation:Minimum=0
	Generation int64 `json:"generation,omitempty"`
	// +optional
	DeletionTimestamp *metav1.Time `json:"deletionTimestamp,omitempty"`
	// +optional
	// +kubebuilder:validation:Minimum=0
	DeletionGracePeriodSeconds *int64 `json:"deletionGracePeriodSeconds,omitempty"`
}

// ManagedFieldsEntry is an entry of metadata.managedFields. It is a separate type because the
// schema that is generated for the type of Kubernetes drops the fields.
type ManagedFieldsEntry struct {
	// +optional
	Manager string `json:"manager,omitempty"`
	// +optional
	Operation metav1.ManagedFieldsOperationType `json:"operation,omitempty"`
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
	// +optional
	FieldsType string `json:"fieldsType,omitempty"`
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	FieldsV1 *runtime.RawExtension `json:"fieldsV1,omitempty"`
	// +optional
	Subresource string `json:"subresource,omitempty"`
}
