// Package objectevents owns the Events on CoderWorkspaces and CoderTemplates.
//
// An Event is made from two states of an object that follow one another, so the state of
// the mirror does not matter: what was always so is no event, however often it is read.
//
// Invariants:
//   - Only the replica that mirrors writes Events. The name of an Event follows from what
//     happened, so a second replica cannot write the same one again.
//   - Objects that appear, as all do in the first sync, have no Events.
//   - An object has at most objectBurst Events at once. Events that cannot be written in
//     time are dropped: conditions have the state.
//   - The note is the message of a condition, in which there are no secrets.
package objectevents
