// Package buildlog streams the log of a build, of a workspace or of a version of a template, as
// lines of plain text.
//
// Invariants: each line is sent as soon as Coder sends it. Errors after the first byte are reported
// in the text, because the status of the response was already sent.
package buildlog
