// Package workspaceproxy reconciles CoderWorkspaceProxy. From the spec it creates a running proxy
// that is registered in Coder, and reports progress and problems in the status.
//
// A pass is a list of steps over a scope: name, finalizer, control plane, registration (package
// registration), inputs of the pods, the steps that all kinds share (package framework), and then the
// removal of replaced registrations. A failed registration blocks only the first Deployment, which
// waits for a session token. Pods with a token keep it whatever Coder answers, and changes of the
// spec still reach them.
//
// The package owns the children that package framework creates, the Secret of package registration,
// the finalizer and the whole status. The finalizer keeps a proxy, for at most a minute, until it
// is unregistered.
//
// Invariants:
//
//   - A pass that changes nothing writes nothing, and does not call Coder within an hour of
//     the last answer.
//   - No decision depends on a condition that an earlier pass wrote. From the status only
//     the id and the name of the proxy are read, in case the Secret is lost.
//   - A missing control plane or an unreachable Coder does not change running pods: neither
//     their image nor the URL of Coder.
//   - Messages of conditions and Events contain no time, no generated name and no token.
package workspaceproxy
