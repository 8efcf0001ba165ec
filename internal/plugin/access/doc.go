// Package access implements the commands to access a Coder: kubectl coder open, which makes its web
// interface reachable through a port-forward, and kubectl coder login, which returns the initial
// admin account.
//
// A password is printed only if a flag requests it.
package access
