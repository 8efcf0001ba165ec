// Package access gets the operator into Coder and keeps it there: it makes,
// verifies, rotates and revokes the API token with which everything else here
// talks to one Coder, and makes the account with which a person logs in first.
//
// It owns three Secrets of a control plane, each with a controller reference to
// it, and touches no other:
//
//   - <name>-operator-token: the token. Its life (id, name, expiry, account) is
//     in annotations, so that a pass can judge it without asking Coder.
//   - <name>-operator-credentials: the operator's own account. It is written
//     before the account exists, so that an account of which nobody knows the
//     password cannot come to be.
//   - <name>-initial-admin: the account of a person, written first as well.
//
// # Ways in
//
// A token that spec.operatorAccess.tokenSecretRef names is verified and nothing
// else. Otherwise, in a Coder without users, the operator makes the first user.
// In a Coder that has users, a Job of Coder's own image runs
// `coder server create-admin-user`. That command reads the credentials from
// EnvUsername, EnvEmail and EnvPassword and the database from EnvPostgresURL
// (and CODER_PG_CONNECTION_AUTH for AWS IAM), so the Job needs the environment
// of coderd besides; without EnvPostgresURL it starts a built-in PostgreSQL of
// its own, which would not be Coder's. It makes user, role owner and membership
// of every organization (organization-admin) in one transaction: where the name
// or the email address exists it changes nothing and exits 1. An account made by
// a Job has a random suffix in its name, so that an account which an earlier
// control plane left behind is neither in the way nor taken over.
//
// # Invariants
//
//   - Every step looks at the world again; a pass that was cut off anywhere is
//     completed by the next one, with one token in Coder and none orphaned.
//     Coder allows one token of a name per user, so the operator's tokens use
//     two names in turn, and what stands under them without being in the Secret
//     is deleted before a new one is minted.
//   - The new token is stored before the old one is deleted.
//   - A pass that changes nothing writes nothing and makes at most one call.
//   - No token and no password is in an error, an event, a message or a log.
//   - Nobody's account is taken over: a login that Coder refuses is told, not
//     worked around, because a person may have locked the operator out.
//
// Coder has no way for an account to delete or suspend itself, so the operator's
// account stays when its token is revoked; nobody knows its password once the
// Secret is gone. Another owner can delete it.
//
// Where password login is off (CODER_DISABLE_PASSWORD_AUTH), Coder 2.30 refuses
// it to owners as well; there only a given token, or one that is rotated before
// it ends, works.
package access
