// Package partition holds what every replica knows about the control planes whose
// objects the API serves: the Board.
//
// The mirror of the writer fills it, replication carries it to the other
// replicas, and the verbs ask it before they answer.
//
// Invariants: a Board is replaced as a whole and never changed in part; a control
// plane that is not on it has no objects.
package partition
