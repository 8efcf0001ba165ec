// Package coderfault turns errors of Coder into the errors of a Kubernetes API.
//
// Invariants: this is the only such table. What cannot be known is 503 or 504
// with Retry-After, never 404: clients delete what a 404 tells them to. A
// refused operator token is a fault of ours and not of the caller, so it is
// 503 and not 401.
package coderfault
