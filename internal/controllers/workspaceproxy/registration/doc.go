// Package registration makes a workspace proxy known to Coder and keeps it so: it
// creates the registration, holds its session token, keeps name, display name and
// icon in line with the spec, and removes what it made.
//
// It owns one Secret of a CoderWorkspaceProxy, <name>-proxy-token, with a
// controller reference to it. The token is under the key token; where it counts
// is in annotations: the id and the name of the proxy, the address of Coder, and
// through whom it was made (a control plane, or the Secret with a person's token),
// because that is what it takes to remove it once the spec says something else.
// Registrations that the spec no longer wants stand in another annotation until
// they are removed, or an hour has passed.
//
// # Whose a proxy is
//
// A proxy in Coder is ours where its id is in that Secret, in the status of the
// CoderWorkspaceProxy (for the case that the Secret is lost), or where its icon
// ends in a mark with the uid of the CoderWorkspaceProxy. Coder tells the id only
// in the answer to the creation, which may never arrive, so each proxy is created
// with that mark and loses it as soon as the id is stored. The mark is the
// fragment of the icon's address, which no browser sends or shows. Every other
// proxy is somebody else's and is not touched, its token neither.
//
// # Invariants
//
//   - Every step looks at the world again; a pass that was cut off anywhere is
//     completed by the next one, with one proxy in Coder and none orphaned. What
//     is about to be created, and where, is written down before it is, so that a
//     change of the spec after a crash does not forget it.
//   - The token is regenerated only where Coder refuses the one in the Secret, or
//     there is none.
//   - A new registration is made before the one that it replaces is removed.
//   - A pass that changes nothing writes nothing, and calls Coder only if the last
//     look at it is an hour ago, or a minute where the pods are not ready.
//   - No token is in an error, an event, a message or a log.
package registration
