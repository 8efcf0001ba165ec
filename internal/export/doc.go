// Package export writes the templates, workspaces and users of a Coder as CoderTemplate,
// CoderWorkspace and CoderUser manifests.
//
// It reads them from the aggregated API.
//
// Invariants:
//   - Applying the manifests to the Coder that they come from changes nothing. They also apply to
//     another Coder that has the same organizations and users. Therefore they contain nothing
//     specific to one Coder: no id and no status.
//   - The same objects result in the same bytes.
//   - No secret value is exported. A list with such a value is omitted as a whole, because applying
//     a part of it would remove the rest. A comment at the top of the manifest shows the list.
//   - An object that cannot be read is reported, and the others are exported.
package export
