package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CoderWorkspaceRecord is what the aggregated API knows of one CoderWorkspace: the
// object as it is served, and what Coder has no place for. It has the namespace and
// the name of the object. Nobody but the operator writes it.
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

// CoderWorkspaceRecordList is a list of them.
//
// +kubebuilder:object:root=true
type CoderWorkspaceRecordList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CoderWorkspaceRecord `json:"items"`
}

// CoderTemplateRecord is what the aggregated API knows of one CoderTemplate: the
// object as it is served, and what Coder has no place for. It has the namespace and
// the name of the object. Nobody but the operator writes it.
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

// CoderTemplateRecordList is a list of them.
//
// +kubebuilder:object:root=true
type CoderTemplateRecordList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CoderTemplateRecord `json:"items"`
}

// CoderUserRecord is what the aggregated API knows of one CoderUser: the
// object as it is served, and what Coder has no place for. It has the namespace and
// the name of the object. Nobody but the operator writes it.
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

// CoderUserRecordList is a list of them.
//
// +kubebuilder:object:root=true
type CoderUserRecordList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CoderUserRecord `json:"items"`
}

// CoderTemplateSource is a part of the files of templates: compressed, and named by the
// hash of its content. The records of templates name the parts that they need, and what
// no record names is removed after a while. Nobody but the operator writes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=codertemplatesources,singular=codertemplatesource,scope=Namespaced
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CoderTemplateSource struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec has the content in object, in base64.
	Spec RecordSpec `json:"spec"`
}

// CoderTemplateSourceList is a list of them.
//
// +kubebuilder:object:root=true
type CoderTemplateSourceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CoderTemplateSource `json:"items"`
}

// RecordSpec is what is known of an object.
type RecordSpec struct {
	// ControlPlane names the CoderControlPlane of the object, in this namespace.
	// +optional
	ControlPlane string `json:"controlPlane,omitempty"`
	// ID is the id of the object in Coder, and its UID. It is unset while the object is
	// being created there.
	// +optional
	ID string `json:"id,omitempty"`
	// CoderName is the name that the object would get now, where something of its name was
	// changed in Coder since. The object keeps its first name.
	// +optional
	CoderName string `json:"coderName,omitempty"`
	// State says for people how the object is.
	// +optional
	State string `json:"state,omitempty"`
	// Pending says for people what is still to be done in Coder.
	// +optional
	Pending string `json:"pending,omitempty"`
	// Claim names the replica that is changing the object in Coder now.
	// +optional
	Claim string `json:"claim,omitempty"`
	// Kept is JSON: labels and other metadata that Coder has no place for, and what is
	// still to be done.
	// +optional
	Kept string `json:"kept,omitempty"`
	// Files names the CoderTemplateSources that the files of a template consist of, in their
	// order, with a space between two.
	// +optional
	Files string `json:"files,omitempty"`
	// Object is JSON: the object as it was last served. It is text, so that kube-apiserver
	// need not look into it. It is unset while the object is being created.
	// +optional
	Object string `json:"object,omitempty"`
}
