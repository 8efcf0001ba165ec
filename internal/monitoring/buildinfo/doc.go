// Package buildinfo exports the version of the process as a Prometheus metric. It is
// separate from package version, which is also imported by programs without metrics.
package buildinfo
