// Package argocd has Argo CD's own view of a cluster, the cache of its gitops-engine,
// look at our objects: it lists and watches everything that a cluster serves, and
// from then on believes what the watches tell.
//
// It is a module of its own, so that the operator's go.mod does not grow by a GitOps
// tool. hack/peers/argocd.sh runs it.
package argocd
