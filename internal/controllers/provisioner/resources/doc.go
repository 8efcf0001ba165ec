// Package resources defines what is specific to the objects of a CoderProvisioner: their names and
// labels, and the Workload from which the shared builders create them.
//
// Invariants: all functions are pure and use neither a client nor a clock. Names, labels and the
// selector are exactly those of the public predecessor, because a selector is immutable. The
// package handles only references to Secrets, and no secret values.
package resources
