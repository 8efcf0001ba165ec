// Package inventory lists all metrics that the process registers, including those without
// values yet.
//
// It creates the metrics of all components with the same functions as the process, in its
// own registry, so the list is complete.
package inventory
