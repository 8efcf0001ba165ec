// Package access owns how a person gets into a Coder: kubectl coder open, which makes
// its web interface reachable through a port-forward, and kubectl coder login, which
// finds the account with which a person logs in first.
//
// A password is printed only where that was asked for with a flag.
package access
