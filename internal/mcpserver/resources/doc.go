// Package resources offers objects of the cluster as resources of the protocol:
// control planes with their pods and events, workspaces with the log of their
// newest build, templates with their files. It also completes the arguments that
// name them, and watches them for clients that subscribe.
//
// Invariants: all is read as the caller, at the time of the request. An answer has
// at most 256 KiB and says where something was left out. No value of an environment
// variable, of a Terraform variable or of an argument of a program is ever shown
// (redaction.go). An object that is not there is ResourceNotFoundError; any other
// error is one sentence. A watch ends with its context and leaves no goroutine.
package resources
