//go:build !race

package mirror

// RaceEnabled says that everything takes ten times as long.
const RaceEnabled = false
