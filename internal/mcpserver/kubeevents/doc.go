// Package kubeevents reads the Events of Kubernetes for the tool get_events, the diagnosis
// and the resources.
//
// Invariants: Events are read with the caller's permissions. Their number is limited,
// because the API returns them sorted by name and not by time. The time and the count of an
// Event are computed in the same way everywhere, for both Event APIs.
package kubeevents
