//go:build !race

package kubetest

// RaceEnabled reports whether the race detector is enabled, which makes everything ten times
// slower.
const RaceEnabled = false

// Stride is the distance between the steps at which a test crashes. Without the race detector it is
// 1, so all steps are tested. See race.go.
const Stride = 1
