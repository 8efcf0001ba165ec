// Package workspace implements the commands that start, stop, restart and update workspaces.
//
// The first three use the subresources of these names. They also retry a failed build, and do not
// change the spec, which may be managed in Git. update changes the spec. An action that ends
// running processes must be confirmed first.
package workspace
