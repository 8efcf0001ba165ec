package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CoderWorkspaceAction requests an immediate action on a workspace. It is the body of a POST to the
// subresources start, stop, restart and orphan of coderworkspaces. It is not stored: the response is
// the workspace. The body may be an empty object.
//
// The subresource orphan deletes a workspace in Coder without the build that destroys its resources,
// for a workspace that no provisioner can build any more. Its pods, volumes and all else that its
// template created stay. It has nothing to do with --cascade=orphan of kubectl delete.
//
// +kubebuilder:object:root=true
type CoderWorkspaceAction struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata. If a name or a UID is set, it must be that of the workspace.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// ephemeralParameters are values for ephemeral parameters of the template version, for the
	// subresources start and restart. They apply to the build that starts the workspace, and are not
	// kept. start refuses them if the workspace runs.
	// +listType=map
	// +listMapKey=name
	// +optional
	EphemeralParameters []WorkspaceParameter `json:"ephemeralParameters,omitempty"`
}

// CoderWorkspaceLogOptions are the query parameters of a GET of the subresource log of
// coderworkspaces. The response is plain text. Each line contains the time, the stage of the build
// or the name of the script, and the output.
//
// +kubebuilder:object:root=true
type CoderWorkspaceLogOptions struct {
	metav1.TypeMeta `json:",inline"`

	// source is build for the log of a build, or agent for the output of an agent's scripts, for
	// example its startup script. The default is build.
	// +optional
	Source string `json:"source,omitempty"`
	// agent is the name of the agent if source is agent. It may be empty if the workspace has one
	// agent.
	// +optional
	Agent string `json:"agent,omitempty"`
	// script returns only the lines of the script with this display name. It needs source=agent.
	// +optional
	Script string `json:"script,omitempty"`
	// tailLines returns only this number of lines from the end of the present log. 0 means all.
	// +optional
	TailLines int64 `json:"tailLines,omitempty"`
	// follow keeps the response open until the build has ended. The log of an agent ends when the
	// workspace is built again.
	// +optional
	Follow bool `json:"follow,omitempty"`
	// build is the number of the build, with source=build. 0 means the newest one. Logs of agents
	// are available only for the newest build.
	// +optional
	Build int32 `json:"build,omitempty"`
	// after skips the first lines, up to and including the line with this id in Coder.
	// +optional
	After int64 `json:"after,omitempty"`
}

// CoderWorkspaceExecOptions are the query parameters of the subresource exec of
// coderworkspaces, which runs a command in a workspace. Its protocol is that of the
// subresource exec of pods. A request needs the verb create, and over WebSocket, which
// begins with a GET, also the verb get.
//
// +kubebuilder:object:root=true
type CoderWorkspaceExecOptions struct {
	metav1.TypeMeta `json:",inline"`

	// agent is the name of the agent that runs the command. It may be empty if the
	// workspace has one agent.
	// +optional
	Agent string `json:"agent,omitempty"`
	// command is the program and its arguments, one query parameter for each. If unset, the login
	// shell runs.
	// +optional
	// +listType=atomic
	Command []string `json:"command,omitempty"`
	// shell passes command to the user's shell as one line, its elements separated by spaces, as an
	// SSH client does. Otherwise each argument reaches the program unchanged.
	// +optional
	Shell bool `json:"shell,omitempty"`
	// stdin is true if the client sends the standard input of the command.
	// +optional
	Stdin bool `json:"stdin,omitempty"`
	// stdout is true if the client receives the standard output of the command.
	// +optional
	Stdout bool `json:"stdout,omitempty"`
	// stderr is true if the client receives the standard error of the command. With tty it is part
	// of the standard output.
	// +optional
	Stderr bool `json:"stderr,omitempty"`
	// tty runs the command in a terminal.
	// +optional
	TTY bool `json:"tty,omitempty"`
	// ssh connects stdin and stdout to the SSH server of the agent, which requires no password,
	// instead of running a command. It is for an SSH client on the user's machine. It requires
	// stdin and stdout, and cannot be combined with stderr, tty, shell or command.
	// +optional
	SSH bool `json:"ssh,omitempty"`
}

// CoderWorkspacePortForwardOptions are the query parameters of the subresource
// portforward of coderworkspaces, which connects to TCP ports of a workspace. Its
// protocol is that of the subresource portforward of pods, and it needs the same verbs
// as the subresource exec.
//
// +kubebuilder:object:root=true
type CoderWorkspacePortForwardOptions struct {
	metav1.TypeMeta `json:",inline"`

	// agent is the name of the agent whose ports are forwarded. It may be empty if the workspace
	// has one agent.
	// +optional
	Agent string `json:"agent,omitempty"`
}
