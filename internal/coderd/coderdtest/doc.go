// Package coderdtest is a Coder for tests: the part of its API that this
// project uses, over HTTP, with state in memory. Its answers are those of Coder
// v2.30, held by the contract test of package coderd, which runs the same table
// against this server and against a real Coder. WithRelease chooses another release;
// releases.go has the table of what differs, and where that was read.
//
// Time stands in a clock that the test may give. Builds finish at once, or when
// the test says so. Any request can be made to fail. With WithLicensing it is the
// build of Coder that takes licenses; those answers follow the source of Coder
// v2.30, because a real one needs a license that costs money.
package coderdtest
