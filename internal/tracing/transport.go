package tracing

import (
	"net/http"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Wrap gives a transport to Kubernetes that adds a span for each request of a trace
// and passes the trace on. Without tracing it is next itself.
func (p *Provider) Wrap(next http.RoundTripper) http.RoundTripper {
	if p == nil {
		return next
	}
	return &transport{next: next}
}

type transport struct{ next http.RoundTripper }

var _ utilnet.RoundTripperWrapper = (*transport)(nil)

// RoundTrip implements http.RoundTripper. A path of Kubernetes holds names and
// nothing secret; a query may, and is left out.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !trace.SpanContextFromContext(req.Context()).IsValid() {
		return t.next.RoundTrip(req)
	}
	ctx, span := Start(req.Context(), "Kubernetes "+req.Method, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("http.request.method", req.Method),
		attribute.String("server.address", req.URL.Hostname()),
		attribute.String("url.path", req.URL.Path),
	))
	defer span.End()
	req = req.Clone(ctx)
	Inject(ctx, req.Header)
	res, err := t.next.RoundTrip(req)
	NoteAnswer(span, res, err)
	return res, err
}

// WrappedRoundTripper lets client-go find the transport below.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// NoteAnswer says in the span of a request how it was answered.
func NoteAnswer(span trace.Span, res *http.Response, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "there was no answer")
		return
	}
	span.SetAttributes(attribute.Int("http.response.status_code", res.StatusCode))
	if res.StatusCode >= http.StatusBadRequest {
		span.SetStatus(codes.Error, http.StatusText(res.StatusCode))
	}
}
