// Package session owns what every command of the plugin works with: the streams,
// the clock, the desktop around it, and the cluster that the flags name.
//
// The plugin reaches Kubernetes alone, with the rights of its caller. It knows which
// resources there are and asks no discovery, so that it also works, and says what is
// wrong, where the aggregated API is not there.
package session
