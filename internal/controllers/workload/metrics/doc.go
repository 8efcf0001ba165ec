// Package metrics is what the controllers tell Prometheus: how passes end and how
// long they take to lead to something that works, what Coder answers, and what
// runs out when.
//
// Invariants: no package state, the registry is given; labels have few values,
// except those that name an object, whose series go when it does; no label and no
// value is a secret.
package metrics
