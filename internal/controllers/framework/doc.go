// Package framework contains the part of a reconciliation that the three kinds share. Each kind
// builds a Workload from its spec. From the Workload this package creates the objects in the
// cluster, and from their state it derives the conditions. A pass is one reconciliation of one
// object.
//
// The package owns the finalizer, the checksum of the Secrets and ConfigMaps that the pods refer
// to, the apply and deletion of children, the permissions for workspaces, the search for the reason
// why pods are not ready, the shared conditions including Ready, Reconciling and Stalled, the
// status update, and the resulting Events and metrics. Everything that is specific to a kind, such
// as its requests to Coder and its own status fields, is in the package of that kind. That package
// embeds a Pass in its scope, and puts its own steps before, between and after those of Begin and
// Steps. A step that fails blocks only the steps that need its result. The shortest wait that a step
// asks for is used.
//
// The metrics are results of reconciliations, time until an object is ready, requests to Coder, and
// expiry times of tokens and licenses.
//
// Invariants:
//
//   - A pass that changes nothing writes nothing, and does not ask the API server for
//     anything that the cache contains. The content of a Secret or ConfigMap is read
//     again only if the resource version in the metadata cache has changed.
//   - In the owner's namespace, only objects with the owner's controller reference are
//     deleted. In other namespaces, only objects with the owner's labels and annotations
//     are deleted. Each deletion has the uid as a precondition.
//   - No decision depends on a condition that an earlier pass wrote: each pass builds all
//     conditions anew, and then copies the transition times.
//   - Messages of conditions and Events contain no time, no generated name and no secret.
//   - All controllers of the process share one Toolkit. It keeps its state in memory only.
//     After a restart it reads the contents again. What only a watch of the previous
//     process saw (see orphaning) is lost.
//   - Labels of metrics have few values, except those that name an object. The series of an
//     object are deleted with the object.
package framework
