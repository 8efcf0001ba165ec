package tracing

import (
	"net/http"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Wrap returns a transport for the Kubernetes API that adds a span for each request that
// belongs to a trace, and propagates the trace. It returns next if tracing is disabled.
func (p *Provider) Wrap(next http.RoundTripper) http.RoundTripper {
	if p == nil {
		return next
	}
	return &transport{next: next}
}

type transport struct{ next http.RoundTripper }

var _ utilnet.RoundTripperWrapper = (*transport)(nil)

// RoundTrip implements http.RoundTripper. Paths of the Kubernetes API contain only names
// and are recorded. Queries may contain confidential data and are not.
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

// WrappedRoundTripper returns the wrapped transport, for client-go.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// NoteAnswer records the response of a request in its span.
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
