//go:build !race

package crashtest

// Stride is the distance between the steps that a test tries: all of them. See
// stride_race.go.
const Stride = 1
