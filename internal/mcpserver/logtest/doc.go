// Package logtest keeps what is logged in tests, for them to look at. Only tests use
// it. It is safe for use by many goroutines.
package logtest
