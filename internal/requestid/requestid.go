package requestid

import (
	"context"
	"strings"
)

const (
	// Header carries the id between servers, and is what most proxies log.
	Header = "X-Request-Id"
	// AuditHeader carries it to and from kube-apiserver, which writes it into its
	// audit log as auditID.
	AuditHeader = "Audit-ID"
	// LogKey is its key in the log.
	LogKey = "requestID"

	// maxLength is that of the audit log of kube-apiserver, in bytes.
	maxLength = 64
)

type contextKey struct{}

// Into gives a context in which the id is known. An empty id changes nothing.
func Into(ctx context.Context, id string) context.Context {
	if id = Clean(id); id == "" {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, id)
}

// From is the id of the request that the context belongs to, or empty.
func From(ctx context.Context) string {
	id, _ := ctx.Value(contextKey{}).(string)
	return id
}

// Clean makes an id that a client chose one that can stand anywhere: at most 64
// letters, digits, points, dashes and underscores. Any other character becomes an
// underscore.
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
