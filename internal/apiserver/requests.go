package apiserver

import (
	"mime"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/controller-runtime/pkg/log"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry/workspace"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

// withoutProtobufObjects removes protobuf from the Accept header of requests to our group. Our
// types have no protobuf encoding, and a client that prefers protobuf but also accepts JSON would
// get 406.
//
// Protobuf stays for requests of metadata only (as=PartialObjectMetadata), which the namespace
// controller sends, and in request bodies (DeleteOptions).
func withoutProtobufObjects(next http.Handler) http.Handler {
	prefix := "/apis/" + aggregationv1alpha1.GroupVersion.String() + "/"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if accept := r.Header.Values("Accept"); len(accept) > 0 && strings.HasPrefix(r.URL.Path, prefix) {
			if kept := acceptable(strings.Join(accept, ",")); kept != "" {
				r.Header.Set("Accept", kept)
			}
		}
		next.ServeHTTP(w, r)
	})
}

// acceptable returns the Accept header without protobuf for our types.
func acceptable(accept string) string {
	var kept []string
	for clause := range strings.SplitSeq(accept, ",") {
		mediaType, params, err := mime.ParseMediaType(clause)
		if err == nil && mediaType == runtime.ContentTypeProtobuf && params["as"] == "" {
			continue
		}
		kept = append(kept, strings.TrimSpace(clause))
	}
	return strings.Join(kept, ",")
}

// withRequestID sets the Audit-ID as the request ID in the request's context and logger.
// kube-apiserver sends the ID of its own audit log with each request that it proxies.
func withRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := tracing.WithRequestID(r.Context(), audit.GetAuditIDTruncated(r.Context()))
		logger := log.FromContext(ctx).WithName("apiserver").WithValues(tracing.RequestIDLogKey, tracing.RequestID(ctx))
		next.ServeHTTP(w, r.WithContext(log.IntoContext(ctx, logger)))
	})
}

// withoutTokens keeps bodies of coderworkspaces/token out of the audit log of this server,
// regardless of its policy, because responses contain a token.
type withoutTokens struct{ audit.PolicyRuleEvaluator }

// EvaluatePolicyRule implements audit.PolicyRuleEvaluator.
func (e withoutTokens) EvaluatePolicyRule(attributes authorizer.Attributes) audit.RequestAuditConfig {
	config := e.PolicyRuleEvaluator.EvaluatePolicyRule(attributes)
	if attributes.GetResource() == workspace.Plural && attributes.GetSubresource() == workspace.TokenSubresource &&
		auditinternal.LevelMetadata.Less(config.Level) {
		config.Level = auditinternal.LevelMetadata
	}
	return config
}
