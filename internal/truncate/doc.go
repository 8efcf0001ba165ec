// Package truncate shortens external text, and converts it to one line.
//
// Invariants: the result is valid UTF-8, because characters are never split. It is never longer
// than the requested number of bytes.
package truncate
