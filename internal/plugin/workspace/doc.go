// Package workspace owns the commands that start, stop, restart and update workspaces.
//
// The first three use the subresources of these names, which build again also what
// failed, and leave the spec that is in Git as it is. Update changes the spec. What ends something that runs is confirmed first.
package workspace
