// Package support holds the test that the supported versions are the same everywhere:
// hack/supported.yaml states them once, and the page docs/reference/support.md is
// rendered from it.
package support
