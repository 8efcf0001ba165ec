// Package docs contains the pages that programs read, so that such a page and the program cannot
// differ.
package docs

import _ "embed"

// HelmParity is the page whose tables map the values of Coder's Helm charts to the fields of the
// three kinds.
//
//go:embed reference/helm-parity.md
var HelmParity string
