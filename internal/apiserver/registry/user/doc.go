// Package user implements the kind CoderUser: the conversion from Coder's users and their records,
// the writes to Coder, validation and the table.
//
// Terms: a manifest owns the fields of the spec that metadata.managedFields lists. The record
// contains the owned fields. The rest of the spec shows the values in Coder.
//
// Invariants:
//   - A field that no manifest owns is never corrected in Coder. An owned field is corrected if it
//     is changed there, as the caller who set it. This is stored for each field.
//   - A change of who owns a field is authorized like a change of its value.
//   - Before a correction, the user is read from Coder alone, because lists are older.
//   - No password is in an object, a record, a log or an error.
//   - At rest no user is read alone: there is one list of users, one list of the members of an
//     organization at a time, and rarely one list of all tokens.
//   - Tokens are shown with their name and times, never with their value or their ID.
package user
