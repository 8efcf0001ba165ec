// Package controllertest runs a controller of this operator against a fake cluster and a fake clock.
// It records the writes and the Events, and can disturb the writes and the reads. The tests of all
// controllers share it. Only tests import it.
package controllertest
