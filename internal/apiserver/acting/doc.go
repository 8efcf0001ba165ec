// Package acting decides as whom a caller of the aggregated API acts in a Coder.
//
// Invariants:
//   - The rules of the control plane decide first (internal/identity). A caller that is
//     mapped to a Coder user acts as that user or is refused: what goes wrong with the
//     user is never a reason to use the operator's account.
//   - Every refusal is 403 and says what is missing and who can change it.
package acting
