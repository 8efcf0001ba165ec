// Package uninstall owns the command that takes coder-k8s out of a cluster.
//
// Invariants:
//   - Nothing is touched that is not of this installation: objects carry its label,
//     or have a name that only it uses; the three kinds are its own.
//   - A Coder that is to be kept loses nothing. Before an object goes, nothing in its
//     namespace belongs to it any more, and nobody runs who could take it back.
//   - Nothing waits for what cannot come: finalizers are taken off before definitions
//     go, and the APIService goes before the namespace. All waiting is bounded.
//   - It can be run again at any point: what is gone is not missed.
//   - No content of a Secret is read.
package uninstall
