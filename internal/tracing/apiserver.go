package tracing

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"
	componenttracing "k8s.io/component-base/tracing"
)

// filterScope is the instrumentation scope of the request filters in the API server
// library. Their spans last as long as the request, so they contain no information, and the
// first one would start a trace.
const filterScope = "k8s.op/apiserver/pkg/endpoints/filterlatency"

// APIServer returns the tracer provider for a server that uses the API server library. It
// creates one span for each resource request, and none for discovery and probes, which are
// sent every few seconds.
//
// The library starts a new trace for all callers except administrators, so that callers
// cannot decide what is sampled. Here the sampler ensures that, and the caller's trace is
// continued.
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

// Shutdown implements componenttracing.TracerProvider. It does nothing, because the process
// uses the provider after the server has ended.
func (apiServer) Shutdown(context.Context) error { return nil }

// joining is a tracer that continues the caller's trace.
type joining struct{ trace.Tracer }

// Start implements trace.Tracer. The library's span names contain a path only for resource
// requests, and only the method for others, which get no span.
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

// silent is a tracer that creates no spans and keeps the trace of the context.
type silent struct{ embedded.Tracer }

// Start implements trace.Tracer.
func (silent) Start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	return ctx, noop.Span{}
}
