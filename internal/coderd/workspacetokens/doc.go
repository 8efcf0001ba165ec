// Package workspacetokens creates, lists and revokes tokens of Coder users that are restricted to
// one workspace.
//
// Invariants:
//   - A token is valid for at most MaxLifetime. Its value is returned once, and is neither stored
//     nor logged.
//   - Coder is the only record of the tokens. The name of a token contains its workspace and the
//     Kubernetes user who requested it. So every replica can list and revoke all of them.
//   - The tokens of a deleted workspace are revoked within seconds after the deletion was seen. If
//     that fails they expire.
//   - While no workspace is deleted and no request arrives, it sends no requests to Coder.
package workspacetokens
