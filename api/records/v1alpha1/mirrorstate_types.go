package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// CoderMirrorState is the sync status of one CoderControlPlane in the aggregated API. It has the
// control plane's namespace and name. Only the operator writes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=codermirrorstates,singular=codermirrorstate,scope=Namespaced
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.spec.state`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.spec.since`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.spec.message`
type CoderMirrorState struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec MirrorStateSpec `json:"spec"`
}

// CoderMirrorStateList is a list of CoderMirrorState objects.
//
// +kubebuilder:object:root=true
type CoderMirrorStateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CoderMirrorState `json:"items"`
}

// MirrorStateSpec is the sync status of a control plane.
type MirrorStateSpec struct {
	// ControlPlaneUID is the UID of the control plane. The state of a deleted control plane remains until
	// its objects are removed, also if there is a new one of the same name. An earlier version of the
	// operator did not set it.
	// +optional
	ControlPlaneUID types.UID `json:"controlPlaneUID,omitempty"`
	// State is Syncing, Ready, Stale or Quarantined.
	// +kubebuilder:validation:Enum=Syncing;Ready;Stale;Quarantined
	State string `json:"state"`
	// Since is when the state began.
	// +optional
	Since metav1.MicroTime `json:"since,omitzero"`
	// Message explains why the state is not Ready.
	// +optional
	Message string `json:"message,omitempty"`
	// DeploymentID is the id of the Coder deployment that the objects were read from. While Coder has
	// another one, its database was replaced, so no object counts as deleted.
	// +optional
	DeploymentID string `json:"deploymentID,omitempty"`
	// NamePrefix is the prefix of the names of the control plane's objects.
	// +optional
	NamePrefix string `json:"namePrefix,omitempty"`
	// Seen is true if all objects were read once, so that each of them has a record.
	// +optional
	Seen bool `json:"seen,omitempty"`
	// NeverServed is true if the objects were never served to a client.
	// +optional
	NeverServed bool `json:"neverServed,omitempty"`
	// Unnamed is true while NamePrefix is not final.
	// +optional
	Unnamed bool `json:"unnamed,omitempty"`
	// Incomplete is the number of objects that could not be stored, or not completely.
	// +optional
	Incomplete int32 `json:"incomplete,omitempty"`
}
