// Package registration registers a workspace proxy in Coder. It creates the registration, stores
// its session token, keeps its name, display name and icon equal to the spec, and removes what it
// created.
//
// The package owns one Secret of a CoderWorkspaceProxy, <name>-proxy-token, with a controller
// reference. The entry "token" contains the session token. Annotations contain what is needed to
// remove the registration after the spec changed: the id and the name of the proxy, the URL of
// Coder, and the credentials with which it was created (a control plane, or the Secret with a
// user's token). Another annotation contains the registrations that the spec no longer asks for,
// until they are removed or the operator has tried that for an hour.
//
// # Ownership of proxies
//
// The operator owns a proxy in Coder if its id is in that Secret or in the status of the
// CoderWorkspaceProxy (in case the Secret is lost), or if its icon ends in a mark with the uid of
// the CoderWorkspaceProxy. Coder returns the id only in the response to the creation, which may be
// lost. So each proxy is created with that mark, and the mark is removed as soon as the id is
// stored. The mark is the fragment of the icon's URL, which no browser sends or shows. All other
// proxies belong to other owners. The operator changes neither them nor their tokens.
//
// A user takes over a proxy of the operator by copying its token into the Secret of
// spec.proxySessionTokenSecretRef. The operator then forgets that proxy.
//
// # Invariants
//
//   - Each pass reads the current state again. If a pass is interrupted anywhere, the next
//     one completes it, with one proxy in Coder and none orphaned. The name and the place of
//     a new registration are stored before it is created, so that a change of the spec after
//     a crash does not lose it.
//   - The token is regenerated only if Coder rejects the one in the Secret, or if there is
//     none.
//   - A new registration is created before the one that it replaces is removed. Earlier
//     registrations and Secrets stay until all pods use the current ones.
//   - A pass that changes nothing writes nothing. It calls Coder only if the last check is
//     an hour old, or a minute if the pods are not ready.
//   - No error, Event, message or log contains a token.
package registration
