// Package resources makes the objects of one Deployment of Coder's image, of any
// of the three kinds: one pure function per object, from a Workload (what a kind
// says of itself, and the part of the spec that all kinds share) to the object.
//
// It owns what the fields of WorkloadSpec, ServingSpec and RBACSpec mean: the pod
// template and what is merged over it, ports, probes, volumes, the addresses
// inside and outside the cluster, and the rights for workspaces. The names,
// labels, arguments and the environment that are particular to a kind come in
// with the Workload.
//
// Invariants: no client, no clock, no randomness; the same Workload gives the
// same object; nothing in an object is shared with the spec; only fields that the
// operator means are set, because they are applied server-side and every field
// that is set is owned. An object that the spec does not ask for is nil. Objects
// carry no owner: the apply path adds it. What a spec can get wrong in a way that
// admission does not see is a SpecError, which names the field.
package resources
