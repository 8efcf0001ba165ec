// Package toolset runs the tools: it registers a function from one struct to another as a
// tool of the protocol, decides which tools are offered, and provides each call with its
// client, confirmation, progress notifications and waiting.
//
// Add adds a tool to a Set, Filter removes the tools that are not offered, and Register
// registers the rest with an MCP server. A Call impersonates its caller. CleanText and
// ReadTail prepare external text (from pods, builds and users) for a model.
//
// Invariants:
//   - A tool that is not offered cannot be called. The client of a tool that only reads
//     rejects every write. Arguments are validated against the schema before the tool runs.
//   - An answer contains no null and at most maxAnswerBytes. An error is one sentence without
//     addresses, stack traces or secrets; unexpected errors are only logged. If the work for
//     which a call waited failed, the result is an error that also contains the answer.
//   - An answer says that its texts are data, because nearly every answer has text of users
//     or programs, such as names, messages and logs.
//   - External text is first cleaned of everything that is invisible in a terminal, so that
//     such characters cannot hide a secret, and then its secrets are redacted. Of a long
//     text, the newest lines are kept. A line or a character is never split, unless a single
//     line is longer than the limit. This takes time linear in the length of the text.
//   - A confirmation is valid for one user, one tool, one set of arguments and one question,
//     for ten minutes. The client gets a state with the question and returns it with the
//     answer, perhaps to another replica. The state contains only an expiry and an
//     HMAC-SHA256 over the expiry and the subject of the question; the server stores
//     nothing. It proves that the question was asked. It does not prove that a user
//     answered: for that, the server must trust the client, as for every call.
//   - Events are read with the caller's permissions, and their number is limited, because
//     the API returns them sorted by name and not by time.
package toolset
