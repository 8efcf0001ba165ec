// Package acting decides as whom a caller of the aggregated API acts in a Coder.
//
// Invariants:
//   - The rules of the control plane apply first (internal/identity). A caller that is mapped to a
//     Coder user acts as that user or is refused. An error with that user never falls back to the
//     operator's account.
//   - Every refusal is 403 Forbidden. Its message names the missing permission and who can
//     change it.
package acting
