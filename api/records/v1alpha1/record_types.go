package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CoderWorkspaceRecord is the state of one CoderWorkspace in the aggregated API: the object as it
// is served, and metadata that Coder cannot store. It has the namespace and the name of the object.
// Only the operator writes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=coderworkspacerecords,singular=coderworkspacerecord,scope=Namespaced
// +kubebuilder:printcolumn:name="ControlPlane",type=string,JSONPath=`.spec.controlPlane`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.spec.state`
// +kubebuilder:printcolumn:name="Pending",type=string,JSONPath=`.spec.pending`
// +kubebuilder:printcolumn:name="CoderName",type=string,priority=1,JSONPath=`.spec.coderName`
// +kubebuilder:printcolumn:name="ID",type=string,priority=1,JSONPath=`.spec.id`
// +kubebuilder:printcolumn:name="Claim",type=string,priority=1,JSONPath=`.spec.claim`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CoderWorkspaceRecord struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec RecordSpec `json:"spec"`
}

// CoderWorkspaceRecordList is a list of CoderWorkspaceRecord objects.
//
// +kubebuilder:object:root=true
type CoderWorkspaceRecordList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CoderWorkspaceRecord `json:"items"`
}

// CoderTemplateRecord is the state of one CoderTemplate in the aggregated API: the object as it is
// served, and metadata that Coder cannot store. It has the namespace and the name of the object.
// Only the operator writes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=codertemplaterecords,singular=codertemplaterecord,scope=Namespaced
// +kubebuilder:printcolumn:name="ControlPlane",type=string,JSONPath=`.spec.controlPlane`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.spec.state`
// +kubebuilder:printcolumn:name="Pending",type=string,JSONPath=`.spec.pending`
// +kubebuilder:printcolumn:name="CoderName",type=string,priority=1,JSONPath=`.spec.coderName`
// +kubebuilder:printcolumn:name="ID",type=string,priority=1,JSONPath=`.spec.id`
// +kubebuilder:printcolumn:name="Claim",type=string,priority=1,JSONPath=`.spec.claim`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CoderTemplateRecord struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec RecordSpec `json:"spec"`
}

// CoderTemplateRecordList is a list of CoderTemplateRecord objects.
//
// +kubebuilder:object:root=true
type CoderTemplateRecordList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CoderTemplateRecord `json:"items"`
}

// CoderUserRecord is the state of one CoderUser in the aggregated API: the object as it is served,
// and metadata that Coder cannot store. It has the namespace and the name of the object. Only the
// operator writes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=coderuserrecords,singular=coderuserrecord,scope=Namespaced
// +kubebuilder:printcolumn:name="ControlPlane",type=string,JSONPath=`.spec.controlPlane`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.spec.state`
// +kubebuilder:printcolumn:name="Pending",type=string,JSONPath=`.spec.pending`
// +kubebuilder:printcolumn:name="CoderName",type=string,priority=1,JSONPath=`.spec.coderName`
// +kubebuilder:printcolumn:name="ID",type=string,priority=1,JSONPath=`.spec.id`
// +kubebuilder:printcolumn:name="Claim",type=string,priority=1,JSONPath=`.spec.claim`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CoderUserRecord struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec RecordSpec `json:"spec"`
}

// CoderUserRecordList is a list of CoderUserRecord objects.
//
// +kubebuilder:object:root=true
type CoderUserRecordList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CoderUserRecord `json:"items"`
}

// CoderTemplateSource is a part of the files of templates. It is compressed, and named by the hash
// of its content. The records of templates refer to the parts that they need. Parts without a
// reference are removed after a while. Only the operator writes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=codertemplatesources,singular=codertemplatesource,scope=Namespaced
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CoderTemplateSource struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec holds the content in object, as base64.
	Spec RecordSpec `json:"spec"`
}

// CoderTemplateSourceList is a list of CoderTemplateSource objects.
//
// +kubebuilder:object:root=true
type CoderTemplateSourceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CoderTemplateSource `json:"items"`
}

// RecordSpec is the stored state of an object.
type RecordSpec struct {
	// ControlPlane is the name of the object's CoderControlPlane in this namespace.
	// +optional
	ControlPlane string `json:"controlPlane,omitempty"`
	// ID is the id of the object in Coder. It is unset while the object is being created in Coder.
	// +optional
	ID string `json:"id,omitempty"`
	// CoderName is the name that the object would get now, if a part of its name was changed in
	// Coder. The object keeps its first name.
	// +optional
	CoderName string `json:"coderName,omitempty"`
	// State is a readable summary of the object's state.
	// +optional
	State string `json:"state,omitempty"`
	// Pending is a readable summary of the changes that are not applied to Coder yet.
	// +optional
	Pending string `json:"pending,omitempty"`
	// Claim is the name of the replica that is changing the object in Coder now.
	// +optional
	Claim string `json:"claim,omitempty"`
	// Kept is JSON: labels and other metadata that Coder cannot store, and changes that are not
	// applied to Coder yet.
	// +optional
	Kept string `json:"kept,omitempty"`
	// Files are the names of the CoderTemplateSources that contain the files of a template, in
	// order, separated by spaces.
	// +optional
	Files string `json:"files,omitempty"`
	// Versions is JSON: the versions of a template, which are served as objects of their own.
	// +optional
	Versions string `json:"versions,omitempty"`
	// Object is JSON: the object as it was last served. It is a string, so that kube-apiserver does
	// not have to parse it. It is unset while the object is being created.
	// +optional
	Object string `json:"object,omitempty"`
}
