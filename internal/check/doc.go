// Package check owns the command that says what is wrong with an installation. It
// reads only, and changes nothing.
package check
