// Package access manages the operator's access to Coder. It creates, verifies, rotates and revokes
// the API token that the operator uses for one Coder, and creates the initial admin account for the
// first human login.
//
// It owns three Secrets of a control plane, each with a controller reference to the control plane,
// and changes no other:
//
//   - <name>-operator-token: the token. Its metadata (id, name, expiry, account) is in annotations,
//     so that a pass can evaluate it without a request to Coder.
//   - <name>-operator-credentials: the operator's own account. The Secret is written before the
//     account is created, so that the password of an existing account is never lost.
//   - <name>-initial-admin: the account for a person. It is also written before the account is
//     created.
//
// # How the operator gets access
//
// A token from spec.operatorAccess.tokenSecretRef is only verified. Otherwise, in a Coder without
// users, the operator creates the first user. In a Coder that has users, a Job with Coder's own
// image runs `coder server create-admin-user`. That command reads the credentials from CODER_USERNAME,
// CODER_EMAIL and CODER_PASSWORD, and the database from CODER_PG_CONNECTION_URL (and
// CODER_PG_CONNECTION_AUTH for AWS IAM), so the Job also needs the environment of coderd. Without
// CODER_PG_CONNECTION_URL the command starts its own built-in PostgreSQL, which is not Coder's database. It creates the user, the role
// owner and the membership of every organization (organization-admin) in one transaction. If the
// name or the email address exists, it changes nothing and exits with 1. An account created by a
// Job has a random suffix in its name, so that it neither conflicts with nor takes over an account
// that an earlier control plane left behind.
//
// # Invariants
//
//   - Every step reads the current state. If a pass is interrupted at any point, the next one
//     completes it, with one token in Coder and no orphaned token. Coder allows one token of a name
//     per user. Therefore the operator's tokens alternate between two names, and a token that has
//     one of these names but is not in the Secret is deleted before a new one is created.
//   - The new token is stored before the old one is deleted.
//   - A pass that changes nothing writes nothing and makes at most one call.
//   - No error, event, message or log contains a token or a password.
//   - No other account is taken over: a login that Coder refuses is reported and not worked around,
//     because an administrator may have locked the operator out.
//
// An account cannot delete or suspend itself in Coder, so the operator's account remains when its
// token is revoked. Its password is lost when the Secret is deleted. The account of a later control
// plane suspends it, and another owner can delete it.
//
// If password login is off (CODER_DISABLE_PASSWORD_AUTH), Coder 2.30 refuses it to owners as well.
// Then only a given token works, or an existing token that is rotated before it expires.
package access
