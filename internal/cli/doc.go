// Package cli contains what the command lines of coder-k8s and of its kubectl plugin share:
// exit codes and the output of errors (execute.go), the formats of -o and tables (format.go), and the
// interaction with users: colors, questions and progress (terminal.go).
//
// A command prints its result to standard output and everything else to standard error. It
// never ends the process itself. Colors and lines that are overwritten are used only on
// terminals. Other streams, such as files or the log of a job, get plain lines. NO_COLOR is
// supported (https://no-color.org). Text from a cluster cannot move the cursor or change
// colors, because control characters are removed from it.
package cli
