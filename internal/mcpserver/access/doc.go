// Package access asks the API server what a caller may do: enter at all, and
// which rights the caller has somewhere, so that no tool is offered that could
// only be refused.
//
// Invariants: nothing here grants anything. The API server decides each call
// again, because the call is made as the caller. Where an answer cannot be had,
// entry is refused and a tool is shown. Answers are kept for seconds.
package access
