// Package resources builds the objects of one Deployment of Coder's image for any of the three
// kinds. It has one pure function for each object. Its argument is a Workload, which contains the
// values of a kind and the part of the spec that all kinds share.
//
// The package defines the meaning of the fields of WorkloadSpec, ServingSpec and RBACSpec: the pod
// template and the template that is merged over it, ports, probes, volumes, the URLs inside and
// outside the cluster, and the permissions for workspaces.
//
// ControlPlane, Provisioner and WorkspaceProxy return the Workload of a kind, with the names,
// labels, ports, arguments and environment variables that are specific to it. Selectors of
// Deployments are immutable, and objects can be migrated from the public predecessor. Therefore
// names, labels and hashes must never change. The golden files in testdata contain them. The
// entry point of Coder's image is "coder server", which accepts no other subcommand. So another
// subcommand needs the path of the program as the command.
//
// Invariants: there is no client, no clock and no randomness. The same Workload results in the same
// object. An object shares no memory with the spec. Only fields that the operator manages are set,
// because the objects are applied with server-side apply, which makes the operator the owner of
// each field that is set. A function returns nil for an object that the spec does not ask for.
// Objects have no owner reference: the apply adds it. An error in a spec that admission does not
// detect is a SpecError, which names the field.
package resources
