// Package charts owns the Helm chart, which is the source of all manifests of an installation. To Go it gives the
// generated roles, so that a process can say which of its rights are missing.
package charts
