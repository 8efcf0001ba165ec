// Package readthrough is the storage of the aggregated API: a storage.Interface
// that keeps nothing and asks Coder each time.
//
// It is the boundary under which everything is ours, and above which everything
// is the library's: dry run, patches, server-side apply, preconditions,
// selectors, finalizers. What replaces it later (a log in memory that mirrors
// Coder) has the same interface and gets the same Backend.
//
// Invariants:
//   - Nothing but Create, GuaranteedUpdate and Delete writes to Coder, and the
//     library calls none of them in a dry run.
//   - Coder has no compare-and-swap. An update reads the object again under a
//     lock of its key before it writes, and starts over where the object has
//     changed since. Two requests at one replica never overwrite each other; at
//     two replicas they may, within the few milliseconds of that write.
//   - A namespace that is being deleted is released: its objects are out of
//     view, and no request destroys them in Coder. The view is taken from a
//     cache; a deletion asks kube-apiserver itself first, because the namespace
//     controller deletes within milliseconds, long before a cache knows.
package readthrough
