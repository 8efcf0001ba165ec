package kubetest

import "testing"

// SkipWithRace skips a test in which one goroutine at a time processes many megabytes or objects, or
// tries hundreds of cases: the race detector makes it ten times slower, and has nothing to find.
// hack/test.sh runs such tests without it.
func SkipWithRace(t testing.TB) {
	t.Helper()
	if RaceEnabled {
		t.Skip("hack/test.sh runs this test without the race detector")
	}
}
