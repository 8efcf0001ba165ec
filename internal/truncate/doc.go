// Package truncate shortens text that comes from outside, and makes one line of it.
//
// Invariants: a character is kept whole or not at all, so what is returned is valid
// UTF-8, and it never has more bytes than were asked for.
package truncate
