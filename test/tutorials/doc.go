// Package tutorials runs the commands of docs/tutorials for a test: every block of a
// tutorial that is marked as sh, in order, in one shell, as a reader would. Blocks
// of other languages show output, and are not run.
package tutorials
