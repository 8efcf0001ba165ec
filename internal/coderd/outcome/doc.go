// Package outcome defines the result of a pass over Coder.
//
// A pass ends Ready, or with a Stop, which is returned as an error. A Stop is Waiting (no user
// action needed) or Failed (a user must act), and has the reason and the message of a condition and
// the time until the next attempt. Every other error comes from the Kubernetes API and is to be
// retried with backoff.
//
// Invariants: the package uses no client and no clock, and does not interpret responses of Coder.
// Each package with passes has its own Result and maps Coder's errors to reasons itself.
package outcome
