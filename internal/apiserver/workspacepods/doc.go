// Package workspacepods owns what the aggregated API knows of the pods of workspaces:
// for each workspace the problem of its pods, if they have one.
//
// A pod belongs to the workspace whose id its label com.coder.workspace.id has. It
// counts only in the namespaces that the control plane of the workspace may use
// (connections.Member.PodNamespaces), so a pod with a forged label elsewhere changes
// nothing. Within such a namespace, anyone who may create pods can label one.
//
// Invariants:
//   - Pods are watched by their label, in each namespace on its own, and only while
//     this replica is the writer. A namespace whose pods may not be read is left out.
//   - Of a pod only what decides about its problem is kept.
//   - Coder is not called. A change is reported to Config.Changed.
package workspacepods
