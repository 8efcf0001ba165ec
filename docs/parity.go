// Package docs holds the pages that programs read too, so that what a page says is
// what a program does.
package docs

import _ "embed"

// HelmParity is the page with the tables from the values of Coder's Helm charts to
// the fields of the three kinds.
//
//go:embed reference/helm-parity.md
var HelmParity string
