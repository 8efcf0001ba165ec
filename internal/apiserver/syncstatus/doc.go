// Package syncstatus holds the sync status of the control planes whose objects the API serves: the
// Board.
//
// The mirror of the leader publishes the sync status. Each replica has a Board, and the verbs check
// it before they respond.
//
// Invariants: a Board is replaced as a whole and never changed in part. A control plane that is not
// on it has no objects.
package syncstatus
