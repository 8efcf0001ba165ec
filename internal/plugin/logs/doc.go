// Package logs owns kubectl coder logs: the log of a build of a workspace or of a
// template's version, as Coder keeps it, and the logs of the pods of a workspace or
// of a control plane.
//
// Logs are written as they are when standard output is no terminal; on one, control
// characters but tabs are taken out of them, so that a log cannot operate it.
package logs
