// Package apiserver is the aggregated API server for aggregation.coder.com: it
// serves the workspaces and templates of Coder deployments as Kubernetes objects.
//
// It owns the assembly of k8s.io/apiserver's GenericAPIServer and of what stands
// under it: the verbs are below registry, the storage is records, which mirror keeps
// equal to Coder; the serving certificate is certificates.
//
// Invariants:
//   - Authentication and authorization are delegated to kube-apiserver and always
//     on, also for a caller that reaches the pod directly. There is no anonymous
//     caller, whatever the cluster allows.
//   - Admission runs here, because kube-apiserver does not run it for what it
//     passes on: NamespaceLifecycle, admission policies and webhooks.
//   - Whether a Coder answers never decides whether this server is ready: an API
//     that is not ready blocks the deletion of every namespace of the cluster.
//   - Every replica serves, with all objects in its memory, and carries out writes. One
//     of them mirrors Coder.
//   - A replica tells of a control plane's state only when it shows the objects that
//     the state speaks of.
//   - What Kubernetes' RBAC allows is done with the operator's own token.
package apiserver
