// Package recordstest implements records in memory, for tests without a kube-apiserver.
//
// Invariants: revisions increase by one with each write of any kind. Responses are those of
// kube-apiserver, also to a write with an outdated revision.
package recordstest
