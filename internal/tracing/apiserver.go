package tracing

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"
	componenttracing "k8s.io/component-base/tracing"
)

// filterScope is how the library of API servers names the spans of its filters. Each
// lasts as long as the request, so they say nothing, and the first would be a trace
// of its own.
const filterScope = "k8s.op/apiserver/pkg/endpoints/filterlatency"

// APIServer makes the spans of a server that is built with the library of API
// servers: one for each request about a resource. Discovery and probes, which come
// every few seconds, have none.
//
// The library begins a new trace for everybody but administrators, so that callers
// cannot choose what is kept. Here the sampler sees to that, and the trace of the
// caller goes on.
func (p *Provider) APIServer() componenttracing.TracerProvider {
	if p == nil {
		return componenttracing.NewNoopTracerProvider()
	}
	return apiServer{TracerProvider: p.sdk}
}

type apiServer struct{ trace.TracerProvider }

// Tracer implements trace.TracerProvider.
func (a apiServer) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	if name == filterScope {
		return silent{}
	}
	return joining{Tracer: a.TracerProvider.Tracer(name, options...)}
}

// Shutdown implements componenttracing.TracerProvider. The spans of the rest of the
// process are not over when the server is.
func (apiServer) Shutdown(context.Context) error { return nil }

// joining is a tracer that goes on with the trace of the caller.
type joining struct{ trace.Tracer }

// Start implements trace.Tracer. The library names a request about a resource after
// its path, and any other one after its method alone.
func (j joining) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if !strings.Contains(name, " ") {
		return silent{}.Start(ctx, name)
	}
	asked := trace.NewSpanStartConfig(options...)
	options = []trace.SpanStartOption{trace.WithSpanKind(asked.SpanKind()), trace.WithAttributes(asked.Attributes()...)}
	if at := asked.Timestamp(); !at.IsZero() {
		options = append(options, trace.WithTimestamp(at))
	}
	return j.Tracer.Start(ctx, name, options...)
}

// silent is a tracer that leaves the trace of the context as it is.
type silent struct{ embedded.Tracer }

// Start implements trace.Tracer.
func (silent) Start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	return ctx, noop.Span{}
}
