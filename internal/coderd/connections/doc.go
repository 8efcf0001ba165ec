// Package connections owns the operator's connections to Coder: one client per control plane, with
// its token and its cached state.
//
// Whether a control plane may be called is decided from the cached CoderControlPlane, before any
// Secret is read. A control plane is ignored if its operator access is disabled, if it is being
// deleted, or if its name contains a dot. A control plane that should be served but is not ready is
// reported as unavailable and never omitted, because a client that sees an incomplete list may
// delete objects.
package connections
