package coderd

import (
	"context"
	"net/http"
)

type beforeChangeKey struct{}

// WithBeforeChange has a function asked before each request of the context that may change
// something in Coder. Where it gives an error the request is not made.
func WithBeforeChange(ctx context.Context, before func(context.Context) error) context.Context {
	return context.WithValue(ctx, beforeChangeKey{}, before)
}

// BeforeChange asks that function, for who changes something in Coder in another way than
// by a Client.
func BeforeChange(ctx context.Context) error {
	if before, ok := ctx.Value(beforeChangeKey{}).(func(context.Context) error); ok {
		return before(ctx)
	}
	return nil
}

// changes says that a request may change something.
func changes(req *http.Request) bool {
	return req.Method != http.MethodGet && req.Method != http.MethodHead
}
