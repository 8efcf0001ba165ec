// Package crashtest kills a process at any one of its writes and requests, once
// before the other side hears of it and once after, so that a test can let a new
// process go on from there. Tests alone import it.
package crashtest
