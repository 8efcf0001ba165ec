// Package licensing keeps the license of a Coder deployment what its control
// plane asks for, and knows what the licenses allow. It knows nothing of
// Kubernetes: whoever calls it reads the Secret and keeps the record.
//
// # Whose a license is
//
// Coder shows the claims of the licenses that it holds, and not their texts, so
// that a license is recognised by its claims. Coder does not say who added one.
// Therefore the identity of a license goes into the record (Request.Own) before
// the license goes to Coder: a license that is in the record is the operator's,
// wherever the pass was cut off, and any other is a person's.
//
// A person's license is never removed. That holds also for one that equals the
// license which is asked for: it is not added a second time, which Coder would
// refuse, and it does not enter the record, because a record would have the
// operator remove later what a person put there. The message says so.
//
// # Invariants
//
//   - Every pass looks at the world again; one that was cut off anywhere is
//     completed by the next, with no license uploaded twice and none left behind.
//   - The new license is added before the old one is removed. Where Coder refuses
//     the new one, or it begins to count later, the old one stays.
//   - A pass that changes nothing writes nothing, and what Coder said is believed
//     for an hour, so that at rest it makes two calls an hour where there is a
//     license to look after, and one where there is none.
//   - No text of a license is in an error, an event or a message.
//   - The build of Coder that takes no licenses is no error.
package licensing
