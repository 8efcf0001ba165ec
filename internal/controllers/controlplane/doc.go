// Package controlplane reconciles CoderControlPlane. From the spec it creates a running Coder, gets
// the operator's access to it, and reports progress and problems in the status.
//
// A pass is a list of steps over a scope. Most of the steps come from package framework. The control
// plane's own steps decide the prefix of object names, check whether Coder answers, get the
// operator's access, and apply the license. A failed step blocks only the steps that need its
// result. For example, a failure to grant permissions in one namespace blocks nothing else. A
// Service of another owner does not block the Deployment, but it blocks all requests to Coder,
// because the operator would send its token to another server.
//
// The package owns the finalizer and the whole status. The
// finalizer keeps a control plane until the permissions in other namespaces are revoked and the
// operator's token is revoked. The status is computed only from the scope. It is written at the end
// of every pass, also of a failed one, if it changed.
//
// An upgrade to another minor version goes through phases (upgrade.go). They are recorded in
// status.upgrade.
//
// Invariants in addition to those of package framework:
//
//   - A working Coder is checked once an hour, whatever the reason for other passes is.
//     Code that sees earlier that Coder rejects the operator's token or does not work
//     reports this with Refused.
//   - status.objectNamePrefix never changes. The first control plane of a namespace is
//     decided under one lock, from an earlier decision of this process or from an
//     uncached list. Only the leader runs this controller.
//   - A phase of an upgrade acts only when it is recorded, and never from a stale cache. So the same
//     phase is repeated after a crash at any write. The old image comes back only if the version of the
//     schema was read before and after, while no pod ran, and is the same.
package controlplane
