//go:build race

package kubetest

// RaceEnabled reports whether the race detector is enabled, which makes everything ten times
// slower.
const RaceEnabled = true

// Stride is the distance between the steps at which a test crashes. The race detector makes these
// tests eight times slower, and most of them have only one goroutine, so every tenth step is enough
// with it. hack/test.sh also runs them without it.
const Stride = 10
