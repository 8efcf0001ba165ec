// Package keys manages the lifecycle of the provisioner keys that the operator creates: from the
// intent to create a key to its deletion in Coder.
//
// The key is stored in a Secret that the CoderProvisioner owns. Annotations of the Secret contain a
// record of the key: its id, name, organization and control plane, the replaced keys that are not
// deleted yet, and the intent to create a key. The package writes nothing else in Kubernetes.
//
// # Ownership of keys
//
// Coder returns the text of a key only once, and has no field for an owner. The operator owns a key
// if its id is in the record, in status.provisionerKeyID, or on a pod. It also owns a key with the
// name of an intent that was created after the intent. Before it writes an intent, the operator
// looks up the name: a key that has the name at that time belongs to another owner, and is never
// changed. An intent that was interrupted left at most one key, whose text is lost. That key has
// the tags of the intent, and no daemon uses it. It is deleted before a new key is created. If one
// of these two conditions is false, the key belongs to another owner.
//
// A user takes over a key of the operator by copying it into the Secret of spec.key.secretRef. The
// operator then forgets that key.
//
// # Replacement
//
// A new key has another name, because pods still use the old key. Each pod has an annotation with
// the id of its key. The old key is deleted when no pod, not even a terminating one, has the id of
// another key than the new one. Two names alternate. A replacement during another replacement uses
// a further name.
//
// # Invariants
//
//   - Each write leaves a state from which any later pass reaches the same result: one key
//     in Coder, and the Secret with that key.
//   - A key is deleted by its name, and only after its id was found under that name.
//   - A pass that changes nothing writes nothing, and calls Coder only if the cached answer
//     has expired.
//   - No error, Event, message or log contains a key.
package keys
