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
// log, with the time, the stage of the build or the name of the script, and what it
// wrote.
//
// +kubebuilder:object:root=true
type CoderWorkspaceLogOptions struct {
	metav1.TypeMeta `json:",inline"`

	// source is the log that is meant: build, or agent for what the scripts of an agent
	// wrote, for example its startup script. Empty is build.
	// +optional
	Source string `json:"source,omitempty"`
	// agent is the name of the agent, with source=agent. It may be empty if the
	// workspace has one agent.
	// +optional
	Agent string `json:"agent,omitempty"`
	// script leaves out all but the lines of one script, by its display name, with
	// source=agent.
	// +optional
	Script string `json:"script,omitempty"`
	// tailLines leaves out all but the last lines of those that are there. 0 is all.
	// +optional
	TailLines int64 `json:"tailLines,omitempty"`
	// follow keeps the answer open until the build has ended. The log of an agent ends
	// when the workspace is built again.
	// +optional
	Follow bool `json:"follow,omitempty"`
	// build is the number of the build. 0 is the newest one. The logs of agents are
	// those of the newest build.
	// +optional
	Build int32 `json:"build,omitempty"`
	// after leaves out the first lines: up to the one that has this id in Coder.
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
	// command is the program and its arguments, one parameter for each. Without it
	// the login shell runs.
	// +optional
	// +listType=atomic
	Command []string `json:"command,omitempty"`
	// stdin says that the client sends the input of the command.
	// +optional
	Stdin bool `json:"stdin,omitempty"`
	// stdout says that the client receives the output of the command.
	// +optional
	Stdout bool `json:"stdout,omitempty"`
	// stderr says that the client receives the errors of the command. With tty they
	// are part of its output.
	// +optional
	Stderr bool `json:"stderr,omitempty"`
	// tty gives the command a terminal.
	// +optional
	TTY bool `json:"tty,omitempty"`
	// ssh connects stdin and stdout to the SSH server of the agent, which asks for no
	// password, instead of running a command. It is for an SSH client on the user's
	// machine. It needs stdin and stdout, and excludes stderr, tty and command.
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

	// agent is the name of the agent whose ports are meant. It may be empty if the
	// workspace has one agent.
	// +optional
	Agent string `json:"agent,omitempty"`
}
