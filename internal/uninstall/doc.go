// Package uninstall implements the command that removes coder-k8s from a cluster.
//
// Invariants:
//   - Only objects of this installation are changed: they have its label, or a name that
//     only it uses, or one of its kinds.
//   - A Coder deployment that is kept loses nothing. Before a custom resource is deleted,
//     the owner references to it are removed, and the operator, which would restore them,
//     is stopped.
//   - Deletions do not get stuck: finalizers are removed before the definitions are
//     deleted, and the APIService is deleted before the namespace. All waits are limited.
//   - The command can be run again at any point: missing objects are not an error. What a run
//     deletes is printed before, because no later run can print it.
//   - The contents of Secrets are not read.
package uninstall
