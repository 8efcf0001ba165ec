package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CoderUser is a user of a Coder deployment. Its name is the username in lower case. It begins with
// status.objectNamePrefix of the CoderControlPlane, which is "<control-plane>." for all but the
// first one of the namespace.
//
// Every user of Coder has an object. Fields that a manifest does not set are managed in Coder, and
// are shown with Coder's values. Fields that a manifest sets are applied to Coder again if they are
// changed there. Deleting the object suspends the user in Coder, and the object appears again as a
// suspended user. With spec.reclaimPolicy Delete the user is deleted in Coder.
//
// +kubebuilder:object:root=true
type CoderUser struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the user.
	// +optional
	Spec CoderUserSpec `json:"spec,omitempty"`
	// status is the state of the user that Coder last reported.
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

// CoderUserSpec is the desired state of a user.
type CoderUserSpec struct {
	// email is required on creation, except for a service account, which has none. Coder's API cannot change it later.
	// +optional
	Email string `json:"email,omitempty"`
	// fullName is the full name of the user. If unset, Coder's value is kept.
	// +optional
	FullName string `json:"fullName,omitempty"`
	// loginType is how the user logs in: password, oidc, or none for an account that only uses
	// tokens. It is required on creation and cannot change. Users that were not created with this
	// API may have another type, for example github. In Coder 2.36 and later only service accounts have
	// none, which is their default. The upgrade changes other users to password. A manifest that still
	// says none is accepted for them.
	// +optional
	LoginType string `json:"loginType,omitempty"`
	// serviceAccount creates an account for programs, which cannot log in and only uses tokens. It needs
	// Coder 2.36 or later with a license that includes service accounts. It has no email and no password,
	// and cannot change.
	// +optional
	ServiceAccount *bool `json:"serviceAccount,omitempty"`
	// passwordFrom reads the password from a Secret. The Secret is read when the user is created
	// and when this field changes, but not when the Secret changes. If unset, a new user with login
	// type password gets a random password that is not stored.
	// +optional
	PasswordFrom *CoderUserPasswordSource `json:"passwordFrom,omitempty"`
	// suspended denies the user all access to Coder. If unset, Coder's value is kept.
	// +optional
	Suspended *bool `json:"suspended,omitempty"`
	// roles is the complete list of the site roles, for example user-admin, template-admin, auditor
	// or owner. If unset, Coder's value is kept. Every user has the role member, which is not
	// listed.
	// +optional
	// +listType=atomic
	Roles []string `json:"roles,omitzero"`
	// organizations is the complete list of the organizations that the user is a member of. If
	// unset, Coder's value is kept, and a new user becomes a member of the default organization.
	// +optional
	// +listType=atomic
	Organizations []CoderUserOrganization `json:"organizations,omitzero"`
	// reclaimPolicy is the effect of deleting the object: Suspend or Delete. The default is
	// Suspend. Coder deletes only users without workspaces.
	// +optional
	ReclaimPolicy string `json:"reclaimPolicy,omitempty"`
}

// CoderUserOrganization is the membership of a user in an organization.
type CoderUserOrganization struct {
	// name is the name of the organization.
	Name string `json:"name"`
	// roles is the complete list of the user's roles in it, for example organization-admin.
	// +optional
	// +listType=atomic
	Roles []string `json:"roles,omitempty"`
}

// CoderUserPasswordSource is the source of a password.
type CoderUserPasswordSource struct {
	// secretKeyRef selects a key of a Secret in the namespace of the object. The caller who sets it
	// must be allowed to read that Secret.
	// +optional
	SecretKeyRef *SecretKeySelector `json:"secretKeyRef,omitempty"`
}

// CoderUserStatus is the state of a user that Coder last reported.
type CoderUserStatus struct {
	// observedGeneration is the metadata.generation that was last applied to Coder.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// id is the UUID of the user in Coder.
	// +optional
	ID string `json:"id,omitempty"`
	// username is the current name of the user in Coder. The object keeps its first name.
	// +optional
	Username string `json:"username,omitempty"`
	// email is the email address in Coder.
	// +optional
	Email string `json:"email,omitempty"`
	// fullName is the full name of the user in Coder.
	// +optional
	FullName string `json:"fullName,omitempty"`
	// loginType is how the user logs in.
	// +optional
	LoginType string `json:"loginType,omitempty"`
	// serviceAccount reports that it is a service account, which cannot log in.
	// +optional
	ServiceAccount bool `json:"serviceAccount,omitempty"`
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
	// lastSeenAt is when the user was last active in Coder, with a precision of about an hour.
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
	// conditions are Ready, Reconciling and Stalled as defined by kstatus, Synced, and
	// Truncated if the object is too large to be stored.
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
