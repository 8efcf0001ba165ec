package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CoderSelfReview reports as which Coder user the caller acts in each Coder of a namespace, and
// which rule of spec.identity of the CoderControlPlane decided that. It can only be created and is
// not stored: the response contains the status. Callers can review only themselves.
//
// +kubebuilder:object:root=true
type CoderSelfReview struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata. It may be empty.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// status is filled in by the server.
	// +optional
	Status CoderSelfReviewStatus `json:"status,omitempty"`
}

// CoderSelfReviewStatus is the identity of the caller.
type CoderSelfReviewStatus struct {
	// user is the caller's name in Kubernetes.
	// +optional
	User string `json:"user,omitempty"`
	// groups are the caller's groups.
	// +optional
	// +listType=atomic
	Groups []string `json:"groups,omitempty"`
	// extra are the caller's extra attributes that rules can match.
	// +optional
	// +listType=atomic
	Extra []CoderSelfExtra `json:"extra,omitempty"`
	// controlPlanes has an entry for each CoderControlPlane of the namespace.
	// +optional
	// +listType=atomic
	ControlPlanes []CoderSelf `json:"controlPlanes,omitempty"`
}

// CoderSelfExtra is an extra attribute.
type CoderSelfExtra struct {
	// key of the attribute.
	Key string `json:"key"`
	// values of the attribute.
	// +optional
	// +listType=atomic
	Values []string `json:"values,omitempty"`
}

// CoderSelf is the identity of the caller in one Coder.
type CoderSelf struct {
	// controlPlane is the name of the CoderControlPlane.
	ControlPlane string `json:"controlPlane"`
	// actsAs is CoderUser, Operator, Nobody or Unmapped.
	ActsAs string `json:"actsAs"`
	// rule is the index in spec.identity.rules of the rule that decided. It is unset if no
	// rule matches.
	// +optional
	Rule *int32 `json:"rule,omitempty"`
	// reason explains how the rule matched.
	// +optional
	Reason string `json:"reason,omitempty"`
	// coderUser is the username of the Coder user as whom the caller acts.
	// +optional
	CoderUser string `json:"coderUser,omitempty"`
	// coderUserID is the id of that user.
	// +optional
	CoderUserID string `json:"coderUserID,omitempty"`
	// problem explains why the caller cannot act as the user that the rule names.
	// +optional
	Problem string `json:"problem,omitempty"`
	// permission is the permission that an unmapped caller needs to change an object.
	// +optional
	Permission string `json:"permission,omitempty"`
}
