// Package toolset is the frame in which tools run: it turns a function from one
// struct to another into a tool of the protocol, decides which tools are offered,
// and gives each call what it needs besides its arguments.
//
// Add puts a tool into a Set; Filter takes out what is not to be offered; Register
// offers the rest. A Call acts as its caller, asks its caller's user before
// something is destroyed, waits, and tells how far it is.
//
// Invariants: a tool that is not offered cannot be called. A call of a tool that
// only reads has a client that refuses every write. Arguments are checked against
// the schema before the tool sees them. An answer has no null and no more than
// maxAnswerBytes. An error is one sentence, without an address, a stack or a
// secret; what was not foreseen goes to the log and is not told.
package toolset
