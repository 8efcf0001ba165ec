package callers

import (
	"context"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// NameOf is the name of the context's caller, or empty where there is none.
func NameOf(ctx context.Context) string {
	if caller, ok := request.UserFrom(ctx); ok {
		return caller.GetName()
	}
	return ""
}
