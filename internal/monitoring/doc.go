// Package monitoring lists all metrics that the process registers, including those without values
// yet, and registers the one with the version of the process.
//
// It creates the metrics of all components with the same functions as the process, in its own
// registry, so the list is complete.
package monitoring
