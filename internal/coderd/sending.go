package coderd

import (
	"context"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/coder-k8s/coder-k8s/internal/requestid"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
	"github.com/coder-k8s/coder-k8s/internal/truncate"
)

// coderRequestIDHeader is the header with the id under which Coder logs a request.
const coderRequestIDHeader = "X-Coder-Request-Id"

// send sends a request with the request id of its context, and records it in the metrics, the log
// and the trace. It may change the request.
func (t *recorder) send(req *http.Request) (*http.Response, error) {
	if id := requestid.From(req.Context()); id != "" {
		req.Header.Set(requestid.Header, id)
		// Coder assigns its own id to each request, and logs no header except User-Agent.
		req.Header.Set("User-Agent", t.userAgent+" request/"+id)
	}
	endpoint := endpointClass(req.URL.Path)
	ctx, span := tracing.Start(revealed(req.Context()), "Coder "+req.Method+" "+endpoint,
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
			attribute.String("http.request.method", req.Method),
			attribute.String("server.address", req.URL.Hostname()),
			attribute.String("url.template", endpoint),
		))
	defer span.End()
	tracing.Inject(ctx, req.Header)
	begin := time.Now()
	res, err := t.next.RoundTrip(req.WithContext(ctx))
	call := Call{Method: req.Method, Endpoint: endpoint, Duration: time.Since(begin)}
	if res != nil {
		call.Status = res.StatusCode
		limitBody(req, res, endpoint)
	}
	if t.observe != nil {
		t.observe(call)
	}
	tracing.NoteAnswer(span, res, err)
	if id := coderRequestID(res); id != "" {
		span.SetAttributes(attribute.String("coder.request_id", id))
	}
	logCall(req, call, coderRequestID(res), err)
	return res, err
}

type spanKey struct{}

// concealed removes the trace from the context for Coder's client, which would add spans with
// complete URLs. A URL may contain a provisioner key.
func concealed(ctx context.Context) context.Context {
	span := trace.SpanFromContext(ctx)
	if !span.SpanContext().IsValid() {
		return ctx
	}
	return trace.ContextWithSpan(context.WithValue(ctx, spanKey{}, span), noop.Span{})
}

// revealed restores the trace that concealed removed.
func revealed(ctx context.Context) context.Context {
	if span, ok := ctx.Value(spanKey{}).(trace.Span); ok {
		return trace.ContextWithSpan(ctx, span)
	}
	return ctx
}

// logCall writes one line. A failure is always logged if a request or a reconcile pass waits for
// it. Failures of the mirror, which retries by itself, are logged only at level 1, because an
// outage would fill the log.
func logCall(req *http.Request, call Call, coderRequestID string, err error) {
	ctx := req.Context()
	logger := logr.FromContextOrDiscard(ctx)
	values := []any{"method", call.Method, "endpoint", call.Endpoint, "host", req.URL.Host,
		"status", call.Status, "durationMs", call.Duration.Milliseconds()}
	if coderRequestID != "" {
		values = append(values, "coderRequestID", coderRequestID)
	}
	switch failed := call.Status == 0 || call.Status >= http.StatusInternalServerError; {
	case !failed:
		logger.V(1).Info("Asked Coder", values...)
	case ctx.Err() == nil && requestid.From(ctx) != "":
		logger.Info("Coder did not do what it was asked for", append(values, errorValue(err)...)...)
	default:
		logger.V(1).Info("Coder did not do what it was asked for", append(values, errorValue(err)...)...)
	}
}

func errorValue(err error) []any {
	if err == nil {
		return nil
	}
	// The error may contain data of the response, for example a status line.
	return []any{"error", truncate.String(causeOf(err).Error(), maxMessage)}
}

// coderRequestID returns the id under which Coder logs a request. Another server may send any
// value, so only a UUID, Coder's format, is accepted.
func coderRequestID(res *http.Response) string {
	if res == nil {
		return ""
	}
	id, err := uuid.Parse(res.Header.Get(coderRequestIDHeader))
	if err != nil {
		return ""
	}
	return id.String()
}
