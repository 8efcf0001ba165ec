// Package connections owns the operator's connections to Coder: one client per
// control plane, with its token and what is known about it.
//
// Whether a control plane may be called at all is decided from the cached
// CoderControlPlane, before any Secret is read. A control plane whose operator
// access is disabled, that is being deleted, or whose name holds a dot is as if
// it were not there. One that should be served and cannot be yet is reported as
// unavailable, never left out: whoever sees less than there is deletes things.
package connections
