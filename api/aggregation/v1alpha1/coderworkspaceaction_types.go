package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CoderWorkspaceAction asks for something to be done with a workspace at once. It
// is the body of a POST to the subresources start, stop and restart of
// coderworkspaces, and is not kept: the answer is the workspace. Its body may be
// an empty object.
//
// +kubebuilder:object:root=true
type CoderWorkspaceAction struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata. A name must be that of the workspace.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// CoderWorkspaceLogOptions are the query parameters of a GET of the subresource
// log of coderworkspaces. Its answer is plain text: a line for each line of the
// log, with the time, the stage of the build and what it wrote.
//
// +kubebuilder:object:root=true
type CoderWorkspaceLogOptions struct {
	metav1.TypeMeta `json:",inline"`

	// follow keeps the answer open until the build has ended.
	// +optional
	Follow bool `json:"follow,omitempty"`
	// build is the number of the build. 0 is the newest one.
	// +optional
	Build int32 `json:"build,omitempty"`
	// after leaves out the first lines: up to the one that has this id in Coder.
	// +optional
	After int64 `json:"after,omitempty"`
}
