// Package apiserver implements the aggregated API server for aggregation.coder.com, which serves
// the workspaces and templates of Coder deployments as Kubernetes objects.
//
// It assembles the GenericAPIServer of k8s.io/apiserver: registry implements the verbs, records
// implements the storage, mirror keeps the storage equal to Coder, and certificates maintains the
// serving certificate.
//
// Invariants:
//   - Authentication and authorization are delegated to kube-apiserver and always enabled,
//     also for a caller that connects to the pod directly. Anonymous callers are rejected,
//     whatever the cluster allows.
//   - Admission runs here, because kube-apiserver does not run it for requests that it
//     proxies: NamespaceLifecycle, admission policies and webhooks.
//   - The readiness of this server never depends on whether a Coder is reachable: an API
//     that is not ready blocks the deletion of every namespace of the cluster.
//   - Every replica serves, with all objects in its memory, and executes writes. One of
//     them mirrors Coder.
//   - A replica reports a sync status of a control plane only after it has the objects that
//     the status refers to.
//   - Of the metrics of k8s.io/apiserver, only those of an allow-list are exported
//     (librarymetrics.go). The number of series does not depend on the paths of requests: a
//     series with a group, resource or subresource that is not served is dropped.
//   - Only the replica that runs the mirror writes Events (events.go). An Event is derived from
//     two successive states of an object, and its name from the occurrence. So a state that does
//     not change causes no Event, and a second replica cannot write the same Event again.
//   - A request that only Kubernetes' RBAC authorizes is executed with the operator's own
//     token.
package apiserver
