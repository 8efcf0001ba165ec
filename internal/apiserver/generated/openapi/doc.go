// Package openapi holds the generated OpenAPI definitions of the aggregated API
// group and of the Kubernetes metadata types that it uses.
//
// Invariant: hack/generate.sh writes everything here but this file.
package openapi
