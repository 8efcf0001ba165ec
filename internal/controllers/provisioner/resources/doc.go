// Package resources says what the objects of a CoderProvisioner look like, as far
// as they differ from those of the other kinds: their names and labels, and the
// Workload from which the shared builders make them.
//
// Invariants: pure functions without client and clock; names, labels and the
// selector are those of the public predecessor, letter by letter, because a
// selector cannot change; no secret value goes through here, only references.
package resources
