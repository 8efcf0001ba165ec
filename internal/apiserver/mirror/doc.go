// Package mirror keeps the logs of workspaces, templates and users equal to the state of each
// served Coder while this replica is the writer.
//
// Invariants:
//   - It commits under the lock of a key, and only items that were read after the log's entry
//     was made. Any other item is read again.
//   - Before it changes an object in Coder, it writes a claim into the record, as a request does.
//   - An object is removed only if Coder's list no longer contains it and a request for that
//     object alone confirms that it is gone. Many removals at once need a second confirmation
//     later. In all other cases the objects of a control plane stay as they were last seen.
//   - If a control plane is no longer served, its objects are removed from the log without
//     requests to Coder.
//   - The number of requests to Coder does not depend on the number of clients.
//   - All state about an object is in the log, so a new writer continues with its own copy of
//     the log.
package mirror
