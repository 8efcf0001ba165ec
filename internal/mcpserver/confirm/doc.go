// Package confirm signs questions to users. The answer comes with a later request, perhaps
// to another replica, and is valid only for that question.
//
// A client gets a state with the question and must return it with the answer. The state
// contains only an expiry and an HMAC-SHA256 over the expiry and the subject of the
// question. The server stores nothing between the two requests.
//
// Invariants: a state is valid for one user, one tool, one set of arguments and one
// question, for ten minutes. It proves that the question was asked. It does not prove that
// a user answered: for that, the server must trust the client, as for every call.
package confirm
