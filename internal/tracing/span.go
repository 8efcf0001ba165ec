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

// scope names this program in its spans.
const scope = "github.com/coder-k8s/coder-k8s"

// Start adds a span to the trace of the context. Where there is none, it does
// nothing. The span must be ended.
func Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.SpanContext().IsValid() {
		return ctx, parent
	}
	return parent.TracerProvider().Tracer(scope).Start(ctx, name, options...)
}

// Begin adds a span that another process or nobody has asked for: to the trace that
// Extract found, or to a new one. The span must be ended.
func (p *Provider) Begin(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if p == nil {
		return ctx, noop.Span{}
	}
	return p.sdk.Tracer(scope).Start(ctx, name, options...)
}

// End ends a span, with the error that its work ended with, or nil. Who gave up
// waiting has seen no failure. Errors quote others, so credentials are taken out.
func End(span trace.Span, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		var redactor redaction.Redactor
		span.SetStatus(codes.Error, redactor.Text(err.Error()))
	}
	span.End()
}

// Names says which object a span is about.
func Names(namespace, name string) trace.SpanStartOption {
	return trace.WithAttributes(attribute.String("k8s.namespace.name", namespace), attribute.String("k8s.object.name", name))
}

// Inject puts the trace of the context into the headers of a request.
func Inject(ctx context.Context, header http.Header) {
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(header))
}

// Extract gives a context that belongs to the trace in the headers of a request.
// Baggage is left out: nobody here reads what a stranger put there.
func Extract(ctx context.Context, header http.Header) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(header))
}
