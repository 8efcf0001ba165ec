//go:build race

package kubetest

// RaceEnabled reports whether the race detector is enabled, which makes everything ten times
// slower.
const RaceEnabled = true
