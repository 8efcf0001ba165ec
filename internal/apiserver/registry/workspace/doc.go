// Package workspace is all that workspaces are: how an object is made of what
// Coder tells and what its record keeps, what a write does in Coder, validation,
// table, and subresources.
//
// Invariants:
//   - An object is made by one function, of one workspace of Coder, its record and
//     the object before. So it is the same in every verb.
//   - spec is what is wanted: what Coder was last told (running is true while the
//     newest build is a start, also where that start failed), and over it the
//     change that waits or that Coder refused.
//   - One build of a workspace runs at a time. What a build under way keeps waiting
//     is in the record, where the newest change wins, and Settle brings it to Coder.
//   - Coder is told first, the record is written after it, but for what Coder has
//     no place for: a creation, a restart and a deletion are recorded before their
//     first step. Each step looks at what Coder has before it is done, so that
//     the sequence can begin again anywhere.
//   - A deleted workspace keeps our finalizer until it is gone in Coder. It is
//     deleted there when only that one is left.
//   - A dry run makes no write.
package workspace
