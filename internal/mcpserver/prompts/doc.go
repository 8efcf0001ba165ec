// Package prompts offers prompts that bring their data along: what a person would
// otherwise have a model fetch with the first calls of tools.
//
// Invariants: the data is read as the caller, in bounds. It stands in fenced
// blocks that are marked as data, and no text in it can end its block. An error is
// one sentence.
package prompts
