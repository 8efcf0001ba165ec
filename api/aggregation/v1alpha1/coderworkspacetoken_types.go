package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CoderWorkspaceToken asks for a token of Coder that is restricted to one workspace. It is
// the body of a POST to the subresource token of coderworkspaces, and is not kept: the
// answer has the token, which nobody can read again.
//
// The token is one of the caller's Coder user if spec.identity of the CoderControlPlane
// maps them to one, and otherwise of the owner of the workspace, for which the caller
// needs the verb impersonate on coderusers. It ends with the workspace.
//
// +kubebuilder:object:root=true
type CoderWorkspaceToken struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata. A name must be that of the workspace.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is asked for.
	// +optional
	Spec CoderWorkspaceTokenSpec `json:"spec,omitempty"`
	// status is filled in by the server. In a dry run it has no token.
	// +optional
	Status CoderWorkspaceTokenStatus `json:"status,omitempty"`
}

// CoderWorkspaceTokenSpec is what is asked for.
type CoderWorkspaceTokenSpec struct {
	// expirationSeconds is how long the token is valid: 60 to 3600. Unset is 3600.
	// +optional
	ExpirationSeconds *int64 `json:"expirationSeconds,omitempty"`
}

// CoderWorkspaceTokenStatus is a token.
type CoderWorkspaceTokenStatus struct {
	// token is the value of the token. It is only in the answer to the request that made it.
	// +optional
	Token string `json:"token,omitempty"`
	// tokenID names the token in Coder and in a list. It is no secret.
	// +optional
	TokenID string `json:"tokenID,omitempty"`
	// expirationTimestamp is when the token expires.
	// +optional
	ExpirationTimestamp metav1.Time `json:"expirationTimestamp,omitempty"`
	// coderUser is the username of the Coder user whose token it is.
	// +optional
	CoderUser string `json:"coderUser,omitempty"`
	// workspaceID is the id of the workspace in Coder. A holder of the token names the
	// workspace by it, for example: coder ssh <id>.
	// +optional
	WorkspaceID string `json:"workspaceID,omitempty"`
	// requestedBy is the Kubernetes user who asked for the token, as it is in the name of
	// the token in Coder: cut, and with an underscore in the place of special characters.
	// +optional
	RequestedBy string `json:"requestedBy,omitempty"`
	// creationTimestamp is when the token was made, by the clock of Coder.
	// +optional
	CreationTimestamp *metav1.Time `json:"creationTimestamp,omitempty"`
}

// CoderWorkspaceTokenList is the answer to a GET of the subresource token of
// coderworkspaces: the tokens of one workspace, the oldest first, without their values. It
// is also the answer to a DELETE: the tokens that were revoked. With preconditions.uid a
// DELETE revokes the token with this tokenID alone.
//
// +kubebuilder:object:root=true
type CoderWorkspaceTokenList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the tokens, the oldest first.
	Items []CoderWorkspaceToken `json:"items"`
}
