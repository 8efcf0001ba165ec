// Package apiserver is the aggregated API server for aggregation.coder.com: it
// serves the workspaces and templates of Coder deployments as Kubernetes objects.
//
// It owns the assembly of k8s.io/apiserver's GenericAPIServer and of what stands
// under it: the verbs are below registry, the storage is objectlog, which mirror keeps
// equal to Coder and replication equal on all replicas; the serving certificate is
// certificates.
//
// Invariants:
//   - Authentication and authorization are delegated to kube-apiserver and always
//     on, also for a caller that reaches the pod directly. There is no anonymous
//     caller, whatever the cluster allows.
//   - Admission runs here, because kube-apiserver does not run it for what it
//     passes on: NamespaceLifecycle, admission policies and webhooks.
//   - Whether a Coder answers never decides whether this server is ready: an API
//     that is not ready blocks the deletion of every namespace of the cluster.
//   - Every replica serves, with all objects in its memory. One of them decides the
//     changes; a replica that does not passes writes on, after it has authorized and
//     admitted them.
//   - What Kubernetes' RBAC allows is done with the operator's own token.
package apiserver
