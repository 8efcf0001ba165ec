package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CoderUser is a user of a Coder deployment. Its name is the username in lower case, with
// <control-plane>. in front where its namespace holds more than one control plane.
//
// Every user of Coder has an object. What a manifest does not set belongs to Coder, and is
// shown as it is there. What it sets is brought to Coder again if somebody changes it there.
// Deleting the object suspends the user, and the object comes back as that of a suspended
// user; with spec.reclaimPolicy Delete the user is deleted in Coder.
//
// +kubebuilder:object:root=true
type CoderUser struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the user that is wanted.
	// +optional
	Spec CoderUserSpec `json:"spec,omitempty"`
	// status is the user as Coder last reported it.
	// +optional
	Status CoderUserStatus `json:"status,omitempty"`
}

// CoderUserList is a list of users.
//
// +kubebuilder:object:root=true
type CoderUserList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the users, sorted by namespace and name.
	Items []CoderUser `json:"items"`
}

// CoderUserSpec is the user that is wanted.
type CoderUserSpec struct {
	// email is required on creation. Coder's API cannot change it later.
	// +optional
	Email string `json:"email,omitempty"`
	// fullName is the name of the person. Unset keeps what Coder has.
	// +optional
	FullName string `json:"fullName,omitempty"`
	// loginType is how the user logs in: password, oidc, or none for an account that is
	// used with tokens alone. It is required on creation and cannot change. Users that were
	// made elsewhere may have another type, for example github.
	// +optional
	LoginType string `json:"loginType,omitempty"`
	// passwordFrom takes the password from a Secret. It is read when the user is created and
	// when this field changes, and not when the Secret changes. Unset, a new user with the
	// login type password gets a random password that nobody knows.
	// +optional
	PasswordFrom *CoderUserPasswordSource `json:"passwordFrom,omitempty"`
	// suspended refuses the user everything in Coder. Unset keeps what Coder has.
	// +optional
	Suspended *bool `json:"suspended,omitempty"`
	// roles are the site roles, for example user-admin, template-admin, auditor or owner,
	// as the whole list. Unset keeps what Coder has. Every user has the role member, which
	// is not listed.
	// +optional
	// +listType=atomic
	Roles []string `json:"roles,omitempty"`
	// organizations are the organizations that the user is a member of, as the whole list.
	// Unset keeps what Coder has; a new user becomes a member of the default organization.
	// +optional
	// +listType=atomic
	Organizations []CoderUserOrganization `json:"organizations,omitempty"`
	// reclaimPolicy is what deleting the object does: Suspend, which is the default, or
	// Delete. Coder deletes only users without workspaces.
	// +optional
	ReclaimPolicy string `json:"reclaimPolicy,omitempty"`
}

// CoderUserOrganization is the membership of a user in an organization.
type CoderUserOrganization struct {
	// name of the organization.
	Name string `json:"name"`
	// roles of the user in it, for example organization-admin, as the whole list.
	// +optional
	// +listType=atomic
	Roles []string `json:"roles,omitempty"`
}

// CoderUserPasswordSource is where a password is kept.
type CoderUserPasswordSource struct {
	// secretKeyRef is a key of a Secret in the namespace of the object. The caller who sets
	// it must be allowed to read that Secret.
	// +optional
	SecretKeyRef *SecretKeySelector `json:"secretKeyRef,omitempty"`
}

// CoderUserStatus is the user as Coder last reported it.
type CoderUserStatus struct {
	// observedGeneration is the metadata.generation that Coder was told.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// id is the UUID of the user in Coder.
	// +optional
	ID string `json:"id,omitempty"`
	// username is the name of the user in Coder now. The object keeps the name that it had
	// first.
	// +optional
	Username string `json:"username,omitempty"`
	// email is the address in Coder.
	// +optional
	Email string `json:"email,omitempty"`
	// fullName is the name of the person in Coder.
	// +optional
	FullName string `json:"fullName,omitempty"`
	// loginType is how the user logs in.
	// +optional
	LoginType string `json:"loginType,omitempty"`
	// state is active, dormant (the user becomes active with the next login) or suspended.
	// +optional
	State string `json:"state,omitempty"`
	// roles are the site roles.
	// +optional
	// +listType=atomic
	Roles []string `json:"roles,omitempty"`
	// organizations are the organizations that the user is a member of.
	// +optional
	// +listType=atomic
	Organizations []CoderUserOrganization `json:"organizations,omitempty"`
	// lastSeenAt is when the user last did something in Coder, to about an hour.
	// +optional
	LastSeenAt *metav1.Time `json:"lastSeenAt,omitempty"`
	// tokens are the API tokens of the user that have not expired, at most 20, without their
	// values. They are read every five minutes. Sessions, and the tokens that the operator
	// makes to act as the user, are not among them.
	// +optional
	// +listType=atomic
	Tokens []CoderUserToken `json:"tokens,omitempty"`
	// tokenCount is how many there are, if there are more.
	// +optional
	TokenCount int32 `json:"tokenCount,omitempty"`
	// conditions: Ready, Reconciling and Stalled as kstatus reads them, and Synced.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CoderUserToken is what Coder lists of an API token.
type CoderUserToken struct {
	// name that the user gave it.
	Name string `json:"name"`
	// createdAt is when it was made.
	// +optional
	CreatedAt *metav1.Time `json:"createdAt,omitempty"`
	// expiresAt is when it ends. Some versions of Coder put that off while it is used.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`
}
