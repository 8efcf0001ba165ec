// Package controlplane reconciles CoderControlPlane: from the spec to a Coder
// that runs, to the operator's access to it, and to a status that says how far
// that is and what is in the way.
//
// A pass is a list of steps over a scope. In order: name, finalizer, inputs,
// service account, workspace rights, Deployment, Service, rollout, Coder's
// answer, operator access, object name prefix. Each step blocks only what needs
// its result: trouble with rights in some namespace stops nothing else, a Service
// that is someone else's does not stop the Deployment but does stop every call to
// Coder, because the operator would talk to a stranger.
//
// What it owns: the children of package resources; the finalizer, which holds a
// control plane back until the rights in other namespaces are gone and the
// operator's token is revoked; and the whole status. The status is computed by
// status.go from the scope alone, and written at the end of every pass, also of
// one that failed, if it differs.
//
// Invariants:
//
//   - A pass that changes nothing writes nothing.
//   - Nothing is decided from a condition that an earlier pass wrote.
//   - Texts in conditions and Events hold no time, no generated name and no secret.
//   - Secrets and pods are read by name or label from the API server, never through
//     a cache: a cache would hold those of the whole cluster.
//   - status.objectNamePrefix is decided under one lock, from an uncached list, and
//     written at once; only the leader runs this controller.
package controlplane
