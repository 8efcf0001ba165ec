// Package impersonation decides as which Coder user a caller of the aggregated API acts, by the rules
// of a CoderControlPlane, and reports it in CoderSelfReviews.
//
// Invariants:
//   - The first matching rule decides, even if it yields no valid Coder user: later rules are not
//     tried, and a Problem is never treated as Unmapped. Equal names have no effect: only rules map
//     users. Decide makes no requests to Kubernetes or Coder.
//   - A caller that is mapped to a Coder user acts as that user or is refused. An error with that
//     user never falls back to the operator's account.
//   - The owner of an object is authorized by the ID, the name and the roles that Coder reports for
//     the change, never by those that an object shows, because users are renamed. If Coder has no such
//     user, the change is refused. A new user is authorized by its roles.
//   - Every refusal is 403 Forbidden. Its message names the missing permission and who can
//     change it.
package impersonation
