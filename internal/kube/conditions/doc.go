// Package conditions builds lists of metav1.Condition from the result of a reconciliation.
//
// Each reconciliation builds all conditions without reading the previous ones. Merge then copies
// the transition times. So no decision depends on a condition that an earlier reconciliation wrote.
//
// Invariants: the package uses no clock (the time is an argument) and no client, and does not
// depend on any particular condition type.
package conditions
