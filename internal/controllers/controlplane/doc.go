// Package controlplane reconciles CoderControlPlane: from the spec to a Coder
// that runs, to the operator's access to it, and to a status that says how far
// that is and what is in the way.
//
// A pass is a list of steps over a scope. Most of them are those of package
// workload; those of a control plane's own are the prefix of object names, the
// question to Coder whether it answers, the operator's access, and the license. Each
// step blocks only what needs its result: trouble with rights in some namespace stops nothing
// else, a Service that is someone else's does not stop the Deployment but does stop
// every call to Coder, because the operator would talk to a stranger.
//
// What it owns: the children of package resources; the finalizer, which holds a
// control plane back until the rights in other namespaces are gone and the
// operator's token is revoked; and the whole status, which is computed from the
// scope alone and written at the end of every pass, also of one that failed, if it
// differs.
//
// Invariants besides those of package workload:
//
//   - A Coder that works is asked once an hour, whatever else passes are for. Who
//     sees before that that it refuses the operator's token, or does not work, tells
//     by Refused.
//   - status.objectNamePrefix never changes. Who is the first of a namespace is
//     decided under one lock, from what this process decided before or else from an
//     uncached list; only the leader runs this controller.
package controlplane
