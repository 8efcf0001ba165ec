// Package resources builds the objects of a CoderControlPlane. Workload returns what is specific to
// a control plane, and package workload/resources builds from it the objects that all kinds have.
// This package itself builds the Job that creates the operator's account.
//
// The package defines the names, labels, hashes, ports, arguments and environment variables of a
// control plane. Selectors of Deployments are immutable, and a control plane can be migrated from
// the public predecessor. Therefore names, labels and hashes must never change. The golden files in
// testdata contain them.
//
// Invariants: there is no client, no clock and no randomness. The same spec and Inputs result in
// the same object. Only fields that the operator manages are set, because the objects are applied
// with server-side apply, which makes the operator the owner of each field that is set. Objects
// have no owner reference: the apply adds it.
package resources
