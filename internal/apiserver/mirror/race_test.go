//go:build race

package mirror

// raceEnabled says that everything takes ten times as long.
const raceEnabled = true
