//go:build race

package mirror

// RaceEnabled reports whether the race detector is enabled, which makes everything ten times
// slower.
const RaceEnabled = true
