// Package steps runs a reconciliation as a list of steps.
//
// Each step runs unless a step that it needs did not succeed, so a failure blocks only the steps
// that need its result. A step returns nil, Waiting (run again later, nothing is wrong), Stalled (a
// user must act, so do not retry), or any other error (retry with backoff). The shortest wait is
// used.
//
// Invariants: the package uses no client, no clock and no type of Kubernetes. Steps run one after
// the other in the order of the list.
package steps
