package apiserver

import (
	"net/http"

	"k8s.io/apiserver/pkg/audit"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/requestid"
)

// withRequestID sets the Audit-ID as the request ID in the request's context and logger.
// kube-apiserver sends the ID of its own audit log with each request that it proxies.
func withRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := requestid.Into(r.Context(), audit.GetAuditIDTruncated(r.Context()))
		logger := log.FromContext(ctx).WithName("apiserver").WithValues(requestid.LogKey, requestid.From(ctx))
		next.ServeHTTP(w, r.WithContext(log.IntoContext(ctx, logger)))
	})
}
