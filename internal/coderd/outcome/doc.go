// Package outcome is what a pass over Coder came to, and how it says so.
//
// A pass ends Ready, or with a Stop, which travels as an error: Waiting (it will be
// so without anybody's help) or Failed (somebody has to help), with the reason and
// the message of a condition and the time after which to look again. Every other
// error is one of Kubernetes, to be tried again with backoff.
//
// Invariants: no client, no clock, no knowledge of what Coder answers mean. Each
// package of passes has its own Result, and maps Coder's errors to reasons itself.
package outcome
