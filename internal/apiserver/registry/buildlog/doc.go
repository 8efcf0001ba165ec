// Package buildlog answers a request with the log of a build, of a workspace or of
// a version of a template, as lines of plain text.
//
// Invariants: a line is told as soon as Coder tells it. What goes wrong after the
// first byte stands in the text, because the status of the answer is sent by then.
package buildlog
