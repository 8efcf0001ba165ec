// Package workspace owns the commands that start, stop and restart workspaces.
//
// They use the subresources of these names, which build again also what failed, and
// change nothing of what Git says. What ends something that runs is confirmed first.
package workspace
