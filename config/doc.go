// Package config owns the manifests of an installation. To Go it gives the generated
// roles, so that a process can say which of its rights are missing.
package config
