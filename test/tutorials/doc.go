// Package tutorials owns how the commands of docs/tutorials are run by a test: every
// block of a tutorial that is marked as sh, in order, in one shell, as a reader
// would. Blocks of other languages are what is printed, and are not run.
package tutorials
