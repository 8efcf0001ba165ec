// Package registration registers a workspace proxy in Coder. It creates the registration, stores
// its session token, keeps its name, display name and icon equal to the spec, and removes what it
// created.
//
// The package owns one Secret of a CoderWorkspaceProxy, <name>-proxy-token, with a controller
// reference. The entry "token" contains the session token. Annotations contain the id and the name of
// the proxy. The Coder, the credentials and the name of the Secret come from the spec: before the
// proxy is created, its name is written to status.proxyName, and from then on the API server rejects
// changes of spec.controlPlaneRef, bootstrap.coderURL and bootstrap.generatedTokenSecretName.
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
// # Invariants
//
//   - Each pass reads the current state again. If a pass is interrupted anywhere, the next
//     one completes it, with one proxy in Coder and none orphaned. The name of a new
//     registration is stored before it is created, so that a change of
//     spec.bootstrap.proxyName after a crash does not lose it.
//   - The token is regenerated only if Coder rejects the one in the Secret, or if there is
//     none.
//   - A pass that changes nothing writes nothing. It calls Coder only if the last check is
//     an hour old, or a minute if the pods are not ready.
//   - No error, Event, message or log contains a token.
package registration
