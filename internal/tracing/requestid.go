package tracing

import (
	"context"
	"strings"
)

const (
	// RequestIDHeader is the header with the ID between servers. Most proxies log it.
	RequestIDHeader = "X-Request-Id"
	// AuditIDHeader is the header with the ID in requests and responses of kube-apiserver,
	// which records it in the audit log as auditID.
	AuditIDHeader = "Audit-ID"
	// RequestIDLogKey is the key of the ID in log entries.
	RequestIDLogKey = "requestID"

	// maxRequestID is the maximum length of an audit ID in kube-apiserver, in bytes.
	maxRequestID = 64
)

type requestIDKey struct{}

// WithRequestID returns a context with the ID. If the ID is empty, it returns ctx.
func WithRequestID(ctx context.Context, id string) context.Context {
	if id = CleanRequestID(id); id == "" {
		return ctx
	}
	return context.WithValue(ctx, requestIDKey{}, id)
}

// RequestID returns the ID of the request that the context belongs to, or "".
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// CleanRequestID converts an ID from a client to a valid one: at most 64 letters, digits, dots,
// dashes and underscores. Each other character is replaced by an underscore.
func CleanRequestID(id string) string {
	return strings.Map(func(r rune) rune {
		if isPlain(r) {
			return r
		}
		return '_'
	}, id[:min(len(id), maxRequestID)])
}

func isPlain(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_'
}
