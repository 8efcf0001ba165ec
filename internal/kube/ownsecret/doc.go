// Package ownsecret reads and writes the Secrets that belong to one object, where
// what they hold exists nowhere else: a token or a key that is told once.
//
// Invariants:
//
//   - They are read past any cache: who decides from an old one makes a second
//     token. So the client has to be one without a cache.
//   - A write fails where the Secret was changed since it was read, and a deletion
//     where it is not the one that was read. Nothing is tried again here.
//   - Nothing is taken over: a Secret belongs to the object that controls it, and
//     whether that is the owner is for the caller to ask (Mine) before it writes.
//   - No value of a Secret is in an error.
package ownsecret
