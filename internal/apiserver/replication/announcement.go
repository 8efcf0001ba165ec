package replication

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/trace"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/requestid"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

// announce says in the headers of a request to another replica for which request of a
// client it is made, and in which trace.
func announce(ctx context.Context, header http.Header) {
	if id := requestid.From(ctx); id != "" {
		header.Set(requestid.Header, id)
	}
	tracing.Inject(ctx, header)
}

// announced puts that into the context of what another replica asks for. Only what
// belongs to a trace there is one here: replicas talk to each other all the time.
func (r *Replica) announced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		ctx := request.Context()
		if id := requestid.Clean(request.Header.Get(requestid.Header)); id != "" {
			ctx = requestid.Into(ctx, id)
			ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("replication").WithValues(requestid.LogKey, id))
		}
		if ctx = tracing.Extract(ctx, request.Header); trace.SpanContextFromContext(ctx).IsValid() {
			var span trace.Span
			ctx, span = r.config.Tracing.Begin(ctx, "Replica "+request.URL.Path, trace.WithSpanKind(trace.SpanKindServer))
			defer span.End()
		}
		next.ServeHTTP(w, request.WithContext(ctx))
	})
}
