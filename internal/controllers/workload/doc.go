// Package workload is the part of a pass that the three kinds share: from a
// Workload, which a kind makes of its spec, to the objects in the cluster, and from
// what was seen of them to the conditions.
//
// It owns the finalizer's handling, the checksum of what the pods refer to, the
// apply and the deletion of children, the rights for workspaces, the search for
// what keeps pods from being ready, the shared conditions with Ready, Reconciling
// and Stalled, the write of the status, and the Events and metrics that follow
// from it. What is particular to a kind (what it asks Coder, what else its status
// tells) is in the kind's own package, which embeds a Pass in its scope and puts
// its steps before, between and after those of Steps.
//
// Invariants:
//
//   - A pass that changes nothing writes nothing, and asks the API server nothing
//     that its cache does not know: the content of Secrets and ConfigMaps is read
//     again only when the cache of their metadata has another version.
//   - Only what carries the controller reference of the owner is deleted, with its
//     uid as a precondition.
//   - Nothing is decided from a condition that an earlier pass wrote.
//   - Texts in conditions and Events hold no time, no generated name and no secret.
//   - A Toolkit is shared by all controllers of the process. What it remembers is
//     lost with the process at no other price than a few reads.
package workload
