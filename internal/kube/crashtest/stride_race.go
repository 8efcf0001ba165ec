//go:build race

package crashtest

// Stride is the distance between the steps that a test tries. The race detector makes
// these tests eight times as slow, and they have one goroutine for the most part, so
// every fifth step is enough with it. hack/test.sh runs them once more without it.
const Stride = 5
