// Package workspacetokens makes, lists and revokes tokens of Coder users that are
// restricted to one workspace.
//
// Invariants:
//   - A token lives at most MaxLifetime. Its value is returned once, and is neither kept nor
//     logged.
//   - Coder is the only record of the tokens: the name of a token says for which workspace
//     it is and who asked for it. So every replica can list and revoke all of them.
//   - The tokens of a deleted workspace are revoked within seconds of the deletion being
//     seen. If that fails they expire.
//   - At rest Coder is not asked.
package workspacetokens
