// Package text prepares external text (from pods, builds and users) for a model: it limits
// the size, removes invisible characters and redacts secrets.
//
// Clean first removes everything that is invisible in a terminal (readable.go), so that
// such characters cannot hide a secret from package redaction, which then redacts the
// secrets. Tail keeps the newest lines.
//
// Invariants: the newest text is kept. A line or a character is never split, unless a
// single line is longer than the limit. All functions take time linear in the length of the
// text.
package text
