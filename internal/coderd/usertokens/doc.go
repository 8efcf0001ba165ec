// Package usertokens manages the tokens of Coder users: those with which callers act as their own
// Coder users (Sessions), and those that callers get for one workspace (WorkspaceTokens). A session
// in this package is one Coder user of one control plane, on this replica, with its token.
//
// Invariants of the tokens of sessions:
//   - A token lives at most SessionLifetime, is only in the memory of this process, and is never
//     logged. Its name in Coder identifies the replica, and is unique.
//   - It is created by the operator's account, and used only for requests as its user.
//   - It is revoked, with itself, when spec.identity of its control plane changes, when the
//     control plane is deleted, and when the process shuts down cleanly. Otherwise it
//     expires.
//   - An idle session makes no requests to Coder: a token is renewed only when it is used.
//
// Invariants of the tokens that are restricted to one workspace:
//   - A token is valid for at most MaxWorkspaceLifetime. Its value is returned once, and is neither
//     stored nor logged.
//   - Coder is the only record of the tokens. The name of a token contains its workspace and the
//     Kubernetes user who requested it. So every replica can list and revoke all of them.
//   - The tokens of a deleted workspace are revoked within seconds after the deletion was seen. If
//     that fails they expire.
//   - While no workspace is deleted and no request arrives, it sends no requests to Coder.
package usertokens
