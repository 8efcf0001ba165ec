// Package coderdtest provides a fake Coder for tests: the part of Coder's API that this project
// uses, over HTTP, with state in memory. Its responses follow Coder v2.30; WithRelease selects
// another release, and releases.go lists the differences and their sources. The contract test of
// package coderd verifies this: it runs the same cases against this server, with each release, and
// against a real Coder, which in the end-to-end tests is 2.36.1.
//
// A test can set the clock. Builds finish at once, or when the test requests it. Any request can be
// made to fail. With WithLicensing the server behaves like the build of Coder that supports
// licenses. Those responses follow the source code of Coder v2.30. make test-licensed compares
// them with a real Coder 2.36.1: if CODER_LICENSED_URL is set, such a server is a proxy in front of a real one.
package coderdtest
