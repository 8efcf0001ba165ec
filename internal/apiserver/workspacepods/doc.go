// Package workspacepods watches the pods of workspaces, and provides the problem of each
// workspace's pods, if there is one.
//
// A pod belongs to the workspace whose ID is in its label com.coder.workspace.id. It counts only in
// the namespaces that the control plane of the workspace may use
// (connections.Member.PodNamespaces), so a pod with a forged label elsewhere has no effect. Within
// such a namespace, anyone with permission to create pods can set the label.
//
// Invariants:
//   - Pods are watched by their label, in each namespace separately, and only while this
//     replica is the leader. Namespaces without permission to read pods are skipped.
//   - The number of watched namespaces is limited. The own namespaces of control planes come first.
//   - Only the fields of a pod that determine its problem are kept.
//   - The package makes no requests to Coder. It reports changes to Config.Changed.
package workspacepods
