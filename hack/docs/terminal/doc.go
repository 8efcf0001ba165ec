// Command terminal makes a picture of what a program wrote to a terminal: it
// reads the program's output, escape sequences included, from standard input and
// writes SVG to standard output. hack/docs/screenshots.sh uses it.
//
// Invariants:
//   - The same output gives the same bytes.
//   - A sequence that it does not know is left out, never shown.
package main
