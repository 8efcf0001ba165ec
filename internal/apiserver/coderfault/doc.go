// Package coderfault maps errors of Coder to API statuses of Kubernetes.
//
// Invariants: this is the only such mapping. If the state cannot be determined, the status is 503
// or 504 and never 404: clients delete objects because of a 404. It has a Retry-After, except for a
// creation that may have succeeded. If Coder rejects the operator's token, the status is 503 and
// not 401, because the caller cannot fix it.
package coderfault
