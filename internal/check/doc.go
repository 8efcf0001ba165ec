// Package check implements the command that reports problems of an installation. It only
// reads.
package check
