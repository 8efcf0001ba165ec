// Package collector registers metrics.
//
// It owns the one rule about it: a process may make its parts more than once, as
// tests do, and the metrics of all of them are the same.
package collector
