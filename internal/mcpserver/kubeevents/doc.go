// Package kubeevents reads the Events of Kubernetes for all that show them: the tool
// get_events, the diagnosis and the resources.
//
// Invariants: Events are read as the caller, and a bounded number of them, because
// the API gives them in the order of their names and not of time. When and how often
// something happened is the same everywhere, in whichever form an Event was written.
package kubeevents
