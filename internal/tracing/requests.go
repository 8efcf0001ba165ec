package tracing

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	componenttracing "k8s.io/component-base/tracing"

	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// filterScope is the instrumentation scope of the request filters in the API server
// library. A filter encloses the rest of the request, so its span has no information of its own.
// The first one would also start a trace for a request without one.
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

func (a apiServer) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	if name == filterScope {
		return silent{}
	}
	return joining{Tracer: a.TracerProvider.Tracer(name, options...)}
}

// Shutdown does nothing, because the process
// uses the provider after the server has ended.
func (apiServer) Shutdown(context.Context) error { return nil }

// joining is a tracer that continues the caller's trace.
type joining struct{ trace.Tracer }

// Start creates no span for non-resource requests: the library's name of their spans is the
// method, without a path.
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

func (silent) Start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	return ctx, noop.Span{}
}

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

// RoundTrip records the path, but not the query: paths of the Kubernetes API contain only
// names, while queries may contain confidential data.
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

func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// NoteAnswer records the response of a request in its span.
func NoteAnswer(span trace.Span, res *http.Response, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "no response")
		return
	}
	span.SetAttributes(attribute.Int("http.response.status_code", res.StatusCode))
	if res.StatusCode >= http.StatusBadRequest {
		span.SetStatus(codes.Error, http.StatusText(res.StatusCode))
	}
}

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

const (
	// RequestIDHeader is the header with the ID between servers. Most proxies log it.
	RequestIDHeader = "X-Request-Id"
	// AuditIDHeader is the header with the ID in requests and responses of kube-apiserver,
	// which records it in the audit log as auditID.
	AuditIDHeader = "Audit-ID"
	// RequestIDLogKey is the key of the ID in log entries.
	RequestIDLogKey = "requestID"

	// maxRequestID is the maximum length of an audit ID in kube-apiserver, in bytes.
	maxRequestID = 64
)

type requestIDKey struct{}

// WithRequestID returns a context with the ID. If the ID is empty, it returns ctx.
func WithRequestID(ctx context.Context, id string) context.Context {
	if id = CleanRequestID(id); id == "" {
		return ctx
	}
	return context.WithValue(ctx, requestIDKey{}, id)
}

// RequestID returns the ID of the request that the context belongs to, or "".
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// CleanRequestID converts an ID from a client to a valid one: at most 64 letters, digits, dots,
// dashes and underscores. Each other character is replaced by an underscore.
func CleanRequestID(id string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".-_", r) {
			return r
		}
		return '_'
	}, id[:min(len(id), maxRequestID)])
}
