// Package text prepares what pods, builds and users wrote for a model: bounded, readable, and
// without what looks like a secret.
//
// Clean first removes what a person could not see in a terminal (readable.go), so that nothing
// can hide a secret from package redaction, which then removes the secrets. Tail keeps the
// newest lines.
//
// Invariants: the newest is kept; a line or a character is never cut in two unless a single
// line is longer than all that may be kept. The time that anything here takes grows with the
// length of the text and no faster.
package text
