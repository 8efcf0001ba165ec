// Package objectevents writes the Events on CoderWorkspaces and CoderTemplates.
//
// An Event is derived from two successive states of an object. So the state of the mirror is
// irrelevant: a state that does not change causes no Event, however often it is read.
//
// Invariants:
//   - Only the replica that runs the mirror writes Events. The name of an Event is derived
//     from the occurrence, so a second replica cannot write the same Event again.
//   - New objects, as all are in the first sync, have no Events.
//   - An object has at most objectBurst Events in a burst. Events that cannot be written
//     in time are dropped: the conditions have the state.
//   - The note is the message of a condition. It contains no secrets.
package objectevents
