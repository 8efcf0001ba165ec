// Package plugin owns kubectl coder: its commands, their flags and their exit codes.
//
// The plugin talks to Kubernetes alone and contains nothing of Coder's client
// library, so that its license stays that of this repository; a test holds that.
// Each command stands in the package of its noun and takes a session.
package plugin
