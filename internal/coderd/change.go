package coderd

import (
	"context"
	"net/http"
)

type beforeChangeKey struct{}

// WithBeforeChange returns a context with a function that is called before each request that may
// change something in Coder. If the function returns an error, the request is not sent.
func WithBeforeChange(ctx context.Context, before func(context.Context) error) context.Context {
	return context.WithValue(ctx, beforeChangeKey{}, before)
}

// BeforeChange calls that function. Code that changes something in Coder without a Client calls it
// directly.
func BeforeChange(ctx context.Context) error {
	if before, ok := ctx.Value(beforeChangeKey{}).(func(context.Context) error); ok {
		return before(ctx)
	}
	return nil
}

// changes reports whether a request may change something.
func changes(req *http.Request) bool {
	return req.Method != http.MethodGet && req.Method != http.MethodHead
}
