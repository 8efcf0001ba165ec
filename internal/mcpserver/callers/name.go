package callers

import (
	"context"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// NameOf returns the name of the caller in the context, or "" if there is none.
func NameOf(ctx context.Context) string {
	if caller, ok := request.UserFrom(ctx); ok {
		return caller.GetName()
	}
	return ""
}
