package text

import "github.com/coder-k8s/coder-k8s/internal/redaction"

// Clean removes terminal sequences and control characters other than line breaks and tabs,
// replaces invalid UTF-8, and replaces text that looks like a secret (tokens, passwords in
// URLs, private keys) by redaction.Placeholder.
//
// The result can be longer than s, because the placeholder can be longer than a secret.
func Clean(s string) string { return redaction.Prose(readable(s)) }
