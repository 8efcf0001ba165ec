// Package answers provides a cache whose entries expire after a few seconds. It coalesces
// concurrent requests for the same entry.
//
// Invariants: an error is never cached, memory is limited, and a running request continues
// when one of its waiting callers gives up.
package answers
