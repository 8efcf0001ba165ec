// Package mirror copies the state of each Coder to the stored records while this replica holds the
// Lease.
//
// Invariants:
//   - It writes an object while it holds the object's lock, and only if the item was read from
//     Coder after the stored version was written. Any other item is read again.
//   - Before it changes an object in Coder, it writes a claim into the record, as a request does. It sends
//     no request that may end when other replicas no longer respect the claim.
//   - An object is removed only if Coder's list no longer contains it and a request for that
//     object alone confirms that it is gone: with 410 Gone, or with 404 Not Found while the operator's
//     account sees everything in the same database. Many removals at once need a second confirmation
//     later. In all other cases the objects of a control plane stay as they were last seen.
//   - The condition Synced of an object that cannot be read or built for a minute becomes False.
//   - If a control plane is no longer served, its objects are removed from the records without
//     requests to Coder.
//   - The number of requests to Coder does not depend on the number of clients.
//   - All state about an object is in the records, so a new leader continues with its own copy of
//     them.
package mirror
