package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CoderMirrorState says how much the aggregated API knows of one CoderControlPlane. It
// has the control plane's namespace and name. Nobody but the operator writes it.
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

// CoderMirrorStateList is a list of them.
//
// +kubebuilder:object:root=true
type CoderMirrorStateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CoderMirrorState `json:"items"`
}

// MirrorStateSpec is how much is known of a control plane.
type MirrorStateSpec struct {
	// State is Syncing, Ready, Stale or Quarantined.
	// +kubebuilder:validation:Enum=Syncing;Ready;Stale;Quarantined
	State string `json:"state"`
	// Since is when the state began.
	// +optional
	Since metav1.MicroTime `json:"since,omitzero"`
	// Message says for people why it is not Ready.
	// +optional
	Message string `json:"message,omitempty"`
	// NamePrefix stands in front of the names of its objects.
	// +optional
	NamePrefix string `json:"namePrefix,omitempty"`
	// Seen says that it was read once, so that there is a record of each object.
	// +optional
	Seen bool `json:"seen,omitempty"`
	// NeverServed says that nobody was ever shown its objects.
	// +optional
	NeverServed bool `json:"neverServed,omitempty"`
	// Unnamed says that NamePrefix is not settled yet.
	// +optional
	Unnamed bool `json:"unnamed,omitempty"`
}
