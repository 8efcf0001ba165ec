// Package fleet finds the control planes that a request is about, and decides
// what is answered where some of them cannot be asked.
//
// Invariants:
//   - A namespace without a control plane holds nothing, and says so at once.
//   - What concerns one namespace is answered whole or not at all: a control
//     plane there that cannot be asked makes a LIST 503, never shorter. Things
//     that prune read one namespace and believe it.
//   - A LIST over all namespaces leaves out the control planes that cannot be
//     asked and names each in a Warning, so that one dead Coder does not hide
//     all others from people. It is 503 where none of them can be asked. No
//     controller reads such a list: kinds without watch have no informers, and
//     the garbage collector does not look at them.
package fleet
