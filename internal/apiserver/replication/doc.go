// Package replication makes several replicas of the API server show one history:
// one of them, the writer, decides every change, the others follow.
//
// It owns the election, how the replicas know and trust each other, the stream
// that carries logs and Board, and the way of a write to the writer.
//
// Invariants:
//   - At most one replica decides at a time: the holder of the Lease, and it only
//     for as long as nobody else can have taken the Lease over.
//   - A change is in the log of every connected follower before it is in the
//     writer's. So nothing that a client saw at the writer is lost with it.
//   - After a follower is lost nothing is called decided until the Lease is renewed:
//     the writer may be the one that is cut off.
//   - No revision is given twice. The writer never gives one above what the Lease
//     says, and who takes over begins above that, whatever its clock says.
//   - Two logs that have the same revision are equal up to it: what is appended names
//     the revision that it follows. A log that is not the beginning of the writer's
//     is replaced by a snapshot.
//   - Who took part in a takeover accepts nothing from earlier writers.
//   - Replicas trust each other by the fingerprint of a certificate that each makes
//     in memory at its start and publishes in its own Lease. Who may write Leases in
//     the operator's namespace is trusted, nobody else.
//   - Everything that is begun ends with the context of Start, and is bounded.
package replication
