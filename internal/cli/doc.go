// Package cli owns what the command lines of coder-k8s and of its kubectl plugin
// share: exit codes, how an error is told to a person, and how a command finds
// the cluster. Below it are the formats of -o (output) and what is for terminals
// alone (terminal).
//
// A command prints what it is for to standard output and all else to standard
// error, and never ends the process itself.
package cli
