package tools

import (
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/text"
	"github.com/coder-k8s/coder-k8s/internal/truncate"
)

// maxExcerpt limits how many bytes of a foreign text are in a field.
const maxExcerpt = 1000

// excerpt returns the beginning of a foreign text, without secrets.
func excerpt(s string) string { return truncate.String(text.Clean(s), maxExcerpt) }
