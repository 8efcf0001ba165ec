// Package text makes what pods, builds and users wrote fit to be given to a
// model: bounded, readable, and without what looks like a secret.
//
// Clean works in two steps: first what a person could not see in a terminal is
// taken out (readable.go), so that nothing can hide a secret from the second
// step, which replaces secrets (privatekeys.go over all lines, and the forms of
// secrets.go line by line).
//
// Invariants: the newest is kept; a line or a character is never cut in two
// unless a single line is longer than all that may be kept. The time that
// anything here takes grows with the length of the text and no faster, whatever
// the text is. What looks like a secret by its form is replaced even where that
// is wrong now and then; plain sentences about secrets stay.
package text
