// Command terminal converts the terminal output of a program to a picture: it reads the output,
// including escape sequences, from standard input and writes SVG to standard output.
// hack/docs/screenshots.sh uses it.
//
// Invariants:
//   - The same input results in the same bytes.
//   - Unknown escape sequences are ignored and never shown.
package main
