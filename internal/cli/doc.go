// Package cli contains what the command lines of coder-k8s and of its kubectl plugin share:
// exit codes, the output of errors, and the selection of the cluster. Its subpackages
// contain the formats of -o (output) and the functions for terminals (terminal).
//
// A command prints its result to standard output and everything else to standard error. It
// never ends the process itself.
package cli
