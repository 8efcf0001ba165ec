// Package mirror keeps the logs of workspaces and templates equal to what each
// served Coder has, while this replica is the writer.
//
// Invariants:
//   - It commits under the lock of a key, and only what was read after the log's
//     entry was made. Whatever else it has read it reads again.
//   - An object is removed only where Coder's list has it no more and a question
//     for it alone says that it is gone; many at once only after a second look.
//     Whatever a control plane does that is not this leaves its objects as they
//     were last seen.
//   - A control plane that is no longer served is released: its objects leave the
//     log, and Coder is not called.
//   - What it asks of Coder does not depend on the number of clients.
//   - It knows of an object what the log knows. So who becomes the writer goes on
//     with the log that it has.
package mirror
