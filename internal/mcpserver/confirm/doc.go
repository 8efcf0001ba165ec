// Package confirm seals what a person was asked, so that the answer, which comes
// with a later request and perhaps to another replica, counts for that question
// alone.
//
// A client that is asked gets a state and must send it back with the answer. The
// state says nothing by itself: it is a time and an HMAC-SHA256 over that time and
// over who asked for what. The server keeps nothing between the two requests.
//
// Invariants: a state is good for one user, one tool, one set of arguments and one
// question, for ten minutes. It proves that the question was asked, not that a
// person answered: that is the client's word, as with every call that it makes.
package confirm
