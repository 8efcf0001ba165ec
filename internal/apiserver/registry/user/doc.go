// Package user is all that users are: how an object is made of what Coder reports and
// what its record keeps, what a write does in Coder, validation and table.
//
// Terms: a manifest owns the fields of the spec that metadata.managedFields names. What it
// owns is in the record, the rest of the spec is what Coder has.
//
// Invariants:
//   - A field that no manifest owns is never changed in Coder by itself. One that is owned
//     is brought to Coder again if somebody changes it there, as the caller who set it.
//   - Before something is corrected Coder is asked for that user alone: lists are older.
//   - No password is in an object, a record, a log or an error.
//   - At rest no user is read by itself: there is one list of users, one of the members
//     of an organization at a time, and now and then one of all tokens.
//   - Of a token name and times are shown, never its value or its id.
package user
