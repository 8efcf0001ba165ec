package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CoderWorkspaceToken requests a Coder token that is restricted to one workspace. It is the body of
// a POST to the subresource token of coderworkspaces. It is not stored: only the response contains
// the token, which cannot be read again.
//
// If spec.identity of the CoderControlPlane maps the caller to a Coder user, the token belongs to
// that user. Otherwise it belongs to the owner of the workspace, and a caller that no rule matches
// needs the verb impersonate on coderusers. The token is revoked when the workspace is deleted.
//
// +kubebuilder:object:root=true
type CoderWorkspaceToken struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata. If a name is set, it must be the name of the workspace.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes the requested token.
	// +optional
	Spec CoderWorkspaceTokenSpec `json:"spec,omitempty"`
	// status is filled in by the server. It contains no token in a dry run.
	// +optional
	Status CoderWorkspaceTokenStatus `json:"status,omitempty"`
}

// CoderWorkspaceTokenSpec describes the requested token.
type CoderWorkspaceTokenSpec struct {
	// expirationSeconds is the validity of the token in seconds, from 60 to 3600. The default is
	// 3600.
	// +optional
	ExpirationSeconds *int64 `json:"expirationSeconds,omitempty"`
}

// CoderWorkspaceTokenStatus is a token.
type CoderWorkspaceTokenStatus struct {
	// token is the value of the token. Only the response to the request that created it contains
	// it.
	// +optional
	Token string `json:"token,omitempty"`
	// tokenID is the id of the token in Coder. It is not secret.
	// +optional
	TokenID string `json:"tokenID,omitempty"`
	// expirationTimestamp is when the token expires.
	// +optional
	ExpirationTimestamp metav1.Time `json:"expirationTimestamp,omitempty"`
	// coderUser is the username of the Coder user to whom the token belongs.
	// +optional
	CoderUser string `json:"coderUser,omitempty"`
	// workspaceID is the UUID of the workspace in Coder. With the token, commands name the
	// workspace by this id, for example: coder ssh <id>.
	// +optional
	WorkspaceID string `json:"workspaceID,omitempty"`
	// requestedBy is the Kubernetes user who requested the token, as in the token's name in Coder:
	// truncated, and with underscores instead of special characters.
	// +optional
	RequestedBy string `json:"requestedBy,omitempty"`
	// creationTimestamp is when the token was created, by the clock of Coder.
	// +optional
	CreationTimestamp *metav1.Time `json:"creationTimestamp,omitempty"`
}

// CoderWorkspaceTokenList is the response to a GET of the subresource token of coderworkspaces: the
// tokens of one workspace, the oldest first, without their values. It is also the response to a
// DELETE: the tokens that were revoked. With preconditions.uid, a DELETE revokes only the token
// with this tokenID.
//
// +kubebuilder:object:root=true
type CoderWorkspaceTokenList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the tokens, the oldest first.
	Items []CoderWorkspaceToken `json:"items"`
}
