// Package recordstest has records in memory, for tests that need no kube-apiserver.
//
// Invariants: revisions rise by one with each write, over all kinds; the answers are
// those of kube-apiserver, also to a write that comes too late.
package recordstest
