//go:build !race

package kubetest

// Stride is the distance between the steps at which a test crashes. Without the race detector it is
// 1, so all steps are tested. See stride_race.go.
const Stride = 1
