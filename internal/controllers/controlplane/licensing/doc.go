// Package licensing reconciles the license of a Coder deployment with its control plane, and reads
// what the licenses allow. It does not access Kubernetes: the caller reads the Secret and stores
// the record.
//
// # Ownership of a license
//
// Coder returns the claims of the licenses that it has, but not their text, so that a license is
// identified by its claims. Coder does not return who added a license. Therefore the identity of a
// license is written into the record (Request.Own) before the license is uploaded: a license in the
// record is the operator's, also if the pass was interrupted, and every other license belongs to a
// user.
//
// A user's license is never removed, also if it equals the requested license. In that case the
// license is not uploaded a second time, because Coder would refuse it, and it is not recorded,
// because the operator would later remove a recorded license. The condition's message reports this.
//
// # Invariants
//
//   - Every pass reads the current state. If a pass is interrupted at any point, the next one
//     completes it, with no license uploaded twice and none left behind.
//   - The new license is added before the old one is removed. If Coder refuses the new one, or its
//     term begins later, the old one stays.
//   - A pass that changes nothing writes nothing. Responses of Coder are cached for an hour
//     (DefaultRest), after a change for a minute (spread). In steady state there are two calls per hour if there is a
//     license, and one otherwise.
//   - No error, event or message contains the text of a license.
//   - A build of Coder that supports no licenses is not an error.
package licensing
