// Package steps runs a reconcile as a list.
//
// Every step runs unless one that it needs did not succeed, so that a failure
// blocks only what needs its result. A step ends in one of four ways: nil;
// Waiting (look again later, nobody is at fault); Stalled (only a person can
// help, so do not try again by yourself); any other error (try again with
// backoff). The shortest wait wins.
//
// Invariants: no client, no clock, no Kubernetes type; steps run one after the
// other in the order of the list.
package steps
