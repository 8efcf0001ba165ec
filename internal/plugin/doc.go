// Package plugin implements kubectl coder: its commands, their flags and their exit codes.
//
// The plugin communicates only with the Kubernetes API and contains nothing of Coder's client
// library, so that only this repository's license applies to it; a test checks this. Each command
// is in the package of its noun and uses a session.
package plugin
