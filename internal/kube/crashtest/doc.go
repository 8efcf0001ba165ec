// Package crashtest simulates a crash at each write and request of a process: once before the
// server receives it, and once after. A test can then continue with a new process. It can also make
// a single write or request fail in a process that continues. Only tests import it.
package crashtest
