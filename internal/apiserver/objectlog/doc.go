// Package objectlog is a log of objects in memory that stands under the
// library's registry.Store and cacher in place of etcd.
//
// It owns the objects of one kind, for all namespaces, and their history: who
// reads gets the state at a revision, who watches every change since one.
//
// Invariants:
//   - Revisions rise strictly. One decides them, the Sequencer of the writer; the
//     logs of other replicas take over what it decided, so all replicas show the
//     same object at the same revision.
//   - A change is appended here only after every replica that follows has it. So
//     nobody sees a change that would be lost with this replica.
//   - An entry and its object never change. Readers share them without a copy.
//   - A write holds the lock of its key from before it reaches the system of
//     record until the log has the result. What was read from there without the
//     lock must not overwrite a younger entry.
//   - The head moves only with a change of this kind: the cacher waits for any
//     other movement.
//   - History is given up from its old end, never past what the cacher has read,
//     unless that is hopelessly late. What is given up is answered with 410.
//   - The cacher begins at the oldest revision of the log, so that the clients of
//     another replica can go on with this one. Until it has come to the present its
//     ReadinessCheck fails.
//   - Events reach the cacher in small bursts: it ends those of its clients' watches
//     that have no room for more.
package objectlog
