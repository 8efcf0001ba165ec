// Package metrics exposes the Prometheus metrics of the controllers: results of reconciliations,
// time until an object is ready, requests to Coder, and expiry times of tokens and licenses.
//
// Invariants: there is no package state, the caller passes the registry. Labels have few values,
// except those that name an object. The series of an object are deleted with the object. No label
// and no value contains a secret.
package metrics
