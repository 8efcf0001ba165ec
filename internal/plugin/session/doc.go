// Package session provides what all commands of the plugin share: the streams, the clock, the
// desktop, and the cluster that the flags select.
//
// The plugin connects only to Kubernetes, with the permissions of its caller. The resources are
// built in, without discovery. So it also works, and reports the problem, if the aggregated API is
// not available.
package session
