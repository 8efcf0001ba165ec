package tracing

import (
	"context"
	"errors"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// scope is the instrumentation scope of this program.
const scope = "github.com/coder-k8s/coder-k8s"

// Start adds a span to the trace of the context. It does nothing if there is no trace. The
// caller must end the span.
func Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.SpanContext().IsValid() {
		return ctx, parent
	}
	return parent.TracerProvider().Tracer(scope).Start(ctx, name, options...)
}

// Begin starts a span at the entry of the process: in the trace that Extract found, or in a
// new trace. The caller must end the span.
func (p *Provider) Begin(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if p == nil {
		return ctx, noop.Span{}
	}
	return p.sdk.Tracer(scope).Start(ctx, name, options...)
}

// End ends a span, and records the error of its work, if any. Cancellation is not recorded
// as an error. Credentials in the error are redacted.
func End(span trace.Span, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		var redactor redaction.Redactor
		span.SetStatus(codes.Error, redactor.Text(err.Error()))
	}
	span.End()
}

// Names returns an option with the namespace and the name of the span's object.
func Names(namespace, name string) trace.SpanStartOption {
	return trace.WithAttributes(attribute.String("k8s.namespace.name", namespace), attribute.String("k8s.object.name", name))
}

// Inject adds the trace of the context to the headers of a request.
func Inject(ctx context.Context, header http.Header) {
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(header))
}

// Extract returns a context with the trace in the headers of a request. It ignores baggage,
// which this program does not use.
func Extract(ctx context.Context, header http.Header) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(header))
}
