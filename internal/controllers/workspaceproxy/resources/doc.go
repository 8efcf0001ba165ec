// Package resources defines what is specific to the objects of a CoderWorkspaceProxy: names,
// labels, arguments and environment variables. From the Workload, package workload/resources builds
// what all kinds have in common.
//
// Names, labels and ports are those of the public predecessor, because selectors of Deployments are
// immutable. The command differs: the entry point of Coder's image is "coder server", which accepts
// no other subcommand. So "wsproxy server" needs the path of the program as the command.
//
// Invariants: there is no client and no clock. The same inputs result in the same Workload.
package resources
