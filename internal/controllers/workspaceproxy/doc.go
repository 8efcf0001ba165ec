// Package workspaceproxy reconciles CoderWorkspaceProxy: from the spec to a proxy
// that Coder knows and that runs, and to a status that says how far that is and
// what is in the way.
//
// A pass is a list of steps over a scope: name, finalizer, control plane,
// registration (package registration), what the pods are made of, and then the
// steps that all kinds share (package workload). The registration stops nothing
// but the first Deployment, which waits for a session token: pods that have one
// keep it whatever Coder says, and edits of the spec reach them.
//
// What it owns: the children that package workload makes, the Secret of package
// registration, the finalizer, which holds a proxy back for a minute at most until
// it is unregistered, and the whole status.
//
// Invariants:
//
//   - A pass that changes nothing writes nothing, and asks Coder nothing within an
//     hour of the last answer.
//   - Nothing is decided from a condition that an earlier pass wrote. Of the status
//     only the id of the proxy is read, for the case that the Secret is lost.
//   - A control plane or a Coder that is away changes nothing about pods that run:
//     neither their image nor the address of Coder.
//   - Texts in conditions and Events hold no time, no generated name and no token.
package workspaceproxy
