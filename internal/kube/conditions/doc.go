// Package conditions makes lists of metav1.Condition out of what one pass saw.
//
// A pass builds every condition anew, without looking at those of earlier
// passes; Merge then carries over the time of the last transition. So no
// decision is ever made from a condition that an earlier pass wrote.
//
// Invariants: no clock (the time is an argument), no client, no knowledge of
// any particular condition type.
package conditions
