// Package inventory knows every metric that the process registers, before anything was
// counted: what can be queried.
//
// It makes the metrics of all components as the process does, in a registry of its
// own, so a metric cannot be forgotten here that the process has.
package inventory
