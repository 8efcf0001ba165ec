package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// CoderObjectMetadata is the metadata of a workspace or a template that Kubernetes has and Coder
// cannot store: labels, annotations, finalizers, owners, managed fields, generation and deletion.
// Earlier versions of the aggregated API created it. This version moves the metadata to the record of
// the object. Deleting one loses that metadata and nothing else.
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
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Metadata *runtime.RawExtension `json:"metadata,omitempty"`
	// Intent is state of the operator for the object: changes that are not applied to Coder yet,
	// and values to remember.
	// +optional
	// +structType=atomic
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Intent *runtime.RawExtension `json:"intent,omitempty"`
}
