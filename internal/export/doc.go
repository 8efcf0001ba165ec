// Package export owns the manifests of what lives in a Coder: its templates, workspaces
// and users as CoderTemplate, CoderWorkspace and CoderUser.
//
// They come from the aggregated API, or straight from a Coder that no operator
// knows; both ways end in the same objects, because the second one uses the
// conversions of the first.
//
// Invariants:
//   - What is exported applies to where it came from without a change, and to
//     another Coder as far as that has the same organizations and users. So nothing
//     stands in a manifest that only one Coder knows: no id, no status.
//   - The same objects give the same bytes.
//   - No value that is secret is exported. A list that lacks such a value is left out
//     as a whole, because to apply a part of it would take the rest away; the comment
//     at the head of the manifest says what it would have.
//   - What cannot be read is named, and the rest goes on.
package export
