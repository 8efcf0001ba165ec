// Package keys owns the life of the provisioner keys that the operator makes:
// from the intent to make one to the last one deleted in Coder.
//
// The key stands in a Secret that the CoderProvisioner controls, with a record of
// it in annotations: its id, name, organization and control plane, the keys that
// it replaced and that are not deleted yet, and the intent to make one. Nothing
// else is written in Kubernetes here.
//
// # Whose a key is
//
// Coder tells the text of a key once and has no field for an owner. So a key is
// ours if its id stands in the record, in status.provisionerKeyID, or on a pod;
// or if it has the name of an intent and came after it. Before an intent is
// written, the name is looked up: what has it then is someone else's, now and
// later, and is never touched. An intent that was not carried out to the end left
// at most one key, whose text nobody knows: it has the tags of the intent, and no
// daemon came with it. Such a key is deleted before a new one is made. A key of
// which one of the two does not hold is someone else's as well.
//
// # Replacement
//
// The new key has another name, because the old one is used meanwhile. The pods
// carry the id of the key that they hold, so the old one is deleted once no pod,
// a terminating one neither, carries an id that is not the new one's. Two names
// are used in turns; a replacement during a replacement takes a third one.
//
// # Invariants
//
//   - Each write leaves a state from which any later pass comes to the same end:
//     one key in Coder, and the Secret with it.
//   - A key is deleted by its name, and only after its id was seen under that name.
//   - A pass that changes nothing writes nothing, and asks Coder only when what it
//     last heard is older than it may be.
//   - No key is in an error, an event, a message or a log.
package keys
