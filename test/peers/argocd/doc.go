// Package argocd tests our objects with Argo CD's view of a cluster, the cache of its
// gitops-engine: it lists and watches everything that a cluster serves, and then
// relies on the watches.
//
// It is a separate module, so that the operator's go.mod does not grow by a GitOps
// tool. test/peers/argocd.sh runs it.
package argocd
