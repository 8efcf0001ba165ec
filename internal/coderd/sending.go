package coderd

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/coder-k8s/coder-k8s/internal/redaction"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

// coderRequestIDHeader is the header with the id under which Coder logs a request.
const coderRequestIDHeader = "X-Coder-Request-Id"

// send sends a request with the request id of its context, and records it in the metrics, the log
// and the trace. It may change the request.
func (t *recorder) send(req *http.Request) (*http.Response, error) {
	if id := tracing.RequestID(req.Context()); id != "" {
		req.Header.Set(tracing.RequestIDHeader, id)
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
		logger.V(1).Info("Sent a request to Coder", values...)
	case ctx.Err() == nil && tracing.RequestID(ctx) != "":
		logger.Info("A request to Coder failed", append(values, errorValue(err)...)...)
	default:
		logger.V(1).Info("A request to Coder failed", append(values, errorValue(err)...)...)
	}
}

func errorValue(err error) []any {
	if err == nil {
		return nil
	}
	// The error may contain data of the response, for example a status line.
	return []any{"error", redaction.Truncate(causeOf(err).Error(), maxMessage)}
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

// Call describes one request for metrics. Its fields have few different values, and contain no
// name, id or secret.
type Call struct {
	// Method is the HTTP method.
	Method string
	// Endpoint is the class of the path, for example /api/v2/users/{}/roles.
	Endpoint string
	// Status is the HTTP status of the response, whichever server sent it. It is 0 if there was no
	// response.
	Status int
	// Duration is the time until the response headers arrived.
	Duration time.Duration
}

// endpointClass replaces every path segment that is not a fixed part of Coder's API by {}. The
// segment after a collection is replaced even if it equals such a part, because an organization may
// have the name "templates".
func endpointClass(path string) string {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	collection := false
	for i, segment := range segments {
		switch {
		case collections.Has(segment) && !collection:
			collection = true
		case fixed.Has(segment) && !collection, collection && fixedMembers.Has(segment):
			// The tokens are a collection within a user's keys.
			collection = segment == "tokens"
		default:
			segments[i], collection = "{}", false
		}
	}
	return "/" + strings.Join(segments, "/")
}

var (
	// collections are the segments after which the name or id of an object follows.
	collections = sets.New("users", "keys", "members", "organizations", "templates", "templateversions", "versions", "files",
		"workspaces", "workspace", "workspacebuilds", "groups", "licenses", "provisionerkeys", "workspaceproxies", "workspaceagents")
	// fixedMembers are segments after a collection that are not a name or an id.
	fixedMembers = sets.New("first", "login", "logout", "tokens", "tokenconfig")
	// fixed are the fixed parts of the API in a position without a name.
	fixed = sets.New("api", "v2", "buildinfo", "entitlements", "roles", "builds", "ttl", "autostart",
		"autoupdates", "dormant", "parameters", "rich-parameters", "dynamic-parameters", "evaluate", "presets", "variables", "logs", "cancel", "archive",
		"provisionerdaemons", "provisionerjobs", "crypto-keys", "connection", "coordinate", "authcheck",
		"profile", "password", "status", "suspend", "activate", "derp", "acl")
)

type beforeChangeKey struct{}

// WithBeforeChange returns a context with a function that is called before each request that may
// change something in Coder. If the function returns an error, the request is not sent.
func WithBeforeChange(ctx context.Context, before func(context.Context) error) context.Context {
	return context.WithValue(ctx, beforeChangeKey{}, before)
}

// BeforeChange calls that function. Code that changes something in Coder without a Client calls it
// directly.
func BeforeChange(ctx context.Context) error {
	if before, ok := ctx.Value(beforeChangeKey{}).(func(context.Context) error); ok {
		return before(ctx)
	}
	return nil
}

// changes reports whether a request may change something.
func changes(req *http.Request) bool {
	return req.Method != http.MethodGet && req.Method != http.MethodHead
}

// request sends a request for which Coder's own client would read too much of the response, or
// check too little. read receives the header and the body of a response with the expected status.
func (c *Client) request(
	ctx context.Context, method, path string, body any, status int, read func(http.Header, io.Reader) error, opts ...codersdk.RequestOption,
) error {
	res, err := c.sdk.Request(ctx, method, path, body, opts...)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != status {
		return codersdk.ReadBodyAsError(res)
	}
	return read(res.Header, res.Body)
}

// get reads a path as JSON.
func get[T any](ctx context.Context, c *Client, op, path string, query map[string]string) (T, error) {
	var out T
	err := c.call(ctx, op, func(ctx context.Context) error {
		return c.request(ctx, http.MethodGet, path, nil, http.StatusOK, into(&out), withQuery(query))
	})
	return out, err
}

// ignore does not read the body of a response.
func ignore(http.Header, io.Reader) error { return nil }

// into decodes the body of a response as JSON.
func into(value any) func(http.Header, io.Reader) error {
	return func(_ http.Header, body io.Reader) error { return json.NewDecoder(body).Decode(value) }
}

// withQuery sets query parameters.
func withQuery(values map[string]string) codersdk.RequestOption {
	return func(r *http.Request) {
		query := r.URL.Query()
		for key, value := range values {
			query.Set(key, value)
		}
		r.URL.RawQuery = query.Encode()
	}
}
