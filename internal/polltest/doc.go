// Package polltest waits in tests. It defines the time limit of all tests.
//
// Eventually polls until a check succeeds. Context and Timeout provide the same limit to
// waits that do not poll. The limit is CODER_K8S_TEST_TIMEOUT, a Go duration such as "5m",
// or two minutes if that is not set. It is multiplied by the machine's load per core, with
// a factor between one and five. The load is read again when the time is up, so that a test
// gets more time if the machine became busy in the meantime.
//
// The limit is long because it costs nothing when a test passes. A test must not fail
// because the machine is busy: no test expects a duration below ten times its typical
// value. A test that measures time logs the duration.
//
// KeepHangups is for tests in which a program must receive SIGHUP.
//
// Only tests and packages that support tests import this package. It imports only the
// standard library, so that every package can use it.
package polltest
