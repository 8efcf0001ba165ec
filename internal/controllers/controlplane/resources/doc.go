// Package resources says what objects a CoderControlPlane needs: Workload says
// what is particular to a control plane, and package workload/resources makes
// the objects that all kinds have from it. The Job that makes the operator's
// account is made here.
//
// It owns the names, labels, hashes, ports, arguments and the environment of a
// control plane. Selectors of Deployments and Services cannot change after
// creation, and a control plane can move here from the public predecessor, so
// names, labels and hashes are fixed letter by letter; the golden files in
// testdata hold them.
//
// Invariants: no client, no clock, no randomness; the same spec and Inputs give
// the same object; only fields that the operator means are set, because they
// are applied server-side and every field that is set is owned. Objects carry
// no owner: the apply path adds it.
package resources
