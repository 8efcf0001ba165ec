// Package collector registers metrics. A process may create its parts more than once, as tests do.
// All of them then share the same metrics.
package collector
