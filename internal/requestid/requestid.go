package requestid

import (
	"context"
	"strings"
)

const (
	// Header is the header with the ID between servers. Most proxies log it.
	Header = "X-Request-Id"
	// AuditHeader is the header with the ID in requests and responses of kube-apiserver,
	// which records it in the audit log as auditID.
	AuditHeader = "Audit-ID"
	// LogKey is the key of the ID in log entries.
	LogKey = "requestID"

	// maxLength is the maximum length of an audit ID in kube-apiserver, in bytes.
	maxLength = 64
)

type contextKey struct{}

// Into returns a context with the ID. If the ID is empty, it returns ctx.
func Into(ctx context.Context, id string) context.Context {
	if id = Clean(id); id == "" {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, id)
}

// From returns the ID of the request that the context belongs to, or "".
func From(ctx context.Context) string {
	id, _ := ctx.Value(contextKey{}).(string)
	return id
}

// Clean converts an ID from a client to a valid one: at most 64 letters, digits, dots,
// dashes and underscores. Each other character is replaced by an underscore.
func Clean(id string) string {
	return strings.Map(func(r rune) rune {
		if isPlain(r) {
			return r
		}
		return '_'
	}, id[:min(len(id), maxLength)])
}

func isPlain(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_'
}
