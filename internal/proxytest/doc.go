// Package proxytest forwards HTTP requests in tests.
//
// Invariants:
//   - A response arrives whole, whatever the order of the events.
package proxytest
