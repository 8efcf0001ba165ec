// Package answers remembers for seconds what others answered, and lets only one
// of those who want the same answer ask for it.
//
// Invariants: an error is never remembered, memory is bounded, and a question
// that is being asked does not end because one of those who wait for it goes.
package answers
