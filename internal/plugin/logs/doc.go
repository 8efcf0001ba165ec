// Package logs implements kubectl coder logs: the log of a workspace build or of a template
// version's build, which Coder stores, and the logs of the pods of a workspace or of a control
// plane.
//
// Logs are written unchanged if standard output is not a terminal. On a terminal, control
// characters except tabs are removed, so that a log cannot control the terminal.
package logs
