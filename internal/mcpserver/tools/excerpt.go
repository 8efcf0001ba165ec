package tools

import (
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/truncate"
)

// maxExcerpt limits the size of external text in one field, in bytes.
const maxExcerpt = 1000

// excerpt returns the beginning of an external text, with secrets redacted.
func excerpt(s string) string { return truncate.String(toolset.CleanText(s), maxExcerpt) }
