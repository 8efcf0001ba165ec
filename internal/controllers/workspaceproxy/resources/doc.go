// Package resources says what is particular to the objects of a
// CoderWorkspaceProxy: names, labels, arguments and environment. What it has in
// common with the other kinds is made by package workload/resources from the
// Workload.
//
// Names, labels and ports are those of the public predecessor, because selectors
// of Deployments and Services cannot change after creation. The command is not:
// Coder's image begins with "coder server", which takes no further command, so
// that "wsproxy server" needs the program itself in front.
//
// Invariants: no client, no clock; the same inputs give the same Workload.
package resources
