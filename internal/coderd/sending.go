package coderd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/coder-k8s/coder-k8s/internal/kube/collector"
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
	values := []any{"method", call.Method, "endpoint", call.Endpoint, "host", req.URL.Host,
		"status", call.Status, "durationMs", call.Duration.Milliseconds()}
	if id := coderRequestID(res); id != "" {
		span.SetAttributes(attribute.String("coder.request_id", id))
		values = append(values, "coderRequestID", id)
	}
	logger := logr.FromContextOrDiscard(req.Context())
	if call.Status != 0 && call.Status < http.StatusInternalServerError {
		logger.V(1).Info("Sent a request to Coder", values...)
		return res, err
	}
	if err != nil {
		// The error may contain data of the response, for example a status line.
		values = append(values, "error", redaction.Truncate(causeOf(err).Error(), maxMessage))
	}
	// A failure is always logged if a request or a reconcile pass waits for it. Failures of the mirror, which retries by
	// itself, are logged only at level 1, because an outage would fill the log.
	if req.Context().Err() != nil || tracing.RequestID(req.Context()) == "" {
		logger = logger.V(1)
	}
	logger.Info("A request to Coder failed", values...)
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

func get[T any](ctx context.Context, c *Client, op, path string, query map[string]string, names ...string) (T, error) {
	var out T
	err := c.call(ctx, op, func(ctx context.Context) error {
		return c.request(ctx, http.MethodGet, path, nil, http.StatusOK, into(&out), withQuery(query))
	}, names...)
	return out, err
}

// post sends a body as JSON and reads the response.
func post[T any](ctx context.Context, c *Client, op, path string, body any, status int, names ...string) (T, error) {
	var out T
	err := c.call(ctx, op, func(ctx context.Context) error {
		return c.request(ctx, http.MethodPost, path, body, status, into(&out))
	}, names...)
	return out, err
}

func ignore(http.Header, io.Reader) error { return nil }

func into(value any) func(http.Header, io.Reader) error {
	return func(_ http.Header, body io.Reader) error { return json.NewDecoder(body).Decode(value) }
}

func withQuery(values map[string]string) codersdk.RequestOption {
	return func(r *http.Request) {
		query := r.URL.Query()
		for key, value := range values {
			query.Set(key, value)
		}
		r.URL.RawQuery = query.Encode()
	}
}

// answer contains the parts of the last response that Coder's client does not return: its headers
// and status are lost if the client cannot read the response.
type answer struct {
	status     int
	json       bool
	html       bool
	retryAfter time.Duration
	location   string
	// requestID is the id under which Coder logs the request.
	requestID string
	version   string
	// actor is the username of the Actor that made the request, or empty. refused is to be called
	// if Coder refuses that user's token.
	actor   string
	refused func()
}

type answerKey struct{}

// recorder is the transport of one client. It records the responses and sets the User-Agent header.
type recorder struct {
	next      http.RoundTripper
	userAgent string
	observe   func(Call)
	// actor makes all requests. If it is nil, the actor of the context makes the requests that
	// change something.
	actor Actor
	// currentToken is Config.CurrentToken.
	currentToken func() string
	// heldLogs is what counts against maxHeldLogBytes now.
	heldLogs *atomic.Int64
}

func (t *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("User-Agent", t.userAgent)
	if cookie, err := req.Cookie(codersdk.SessionTokenCookie); err == nil && req.Header.Get(codersdk.SessionTokenHeader) == "" {
		// For a WebSocket Coder's client sends the token only as a cookie. Coder expects another
		// cookie name if CODER_HOST_PREFIX_COOKIE is set.
		req.Header.Set(codersdk.SessionTokenHeader, cookie.Value)
	}
	seen, _ := req.Context().Value(answerKey{}).(*answer)
	if seen != nil {
		*seen = answer{}
	}
	if err := t.act(req, seen); err != nil {
		return nil, err
	}
	if changes(req) {
		if err := BeforeChange(req.Context()); err != nil {
			return nil, err
		}
	}
	res, err := t.send(req)
	if err != nil {
		return nil, err
	}
	if seen != nil {
		kind := mediaType(res.Header)
		seen.status, seen.json, seen.html = res.StatusCode, kind == "application/json", kind == "text/html"
		seen.retryAfter, seen.location = retryAfter(res.Header), res.Header.Get("Location")
		seen.requestID, seen.version = coderRequestID(res), res.Header.Get(codersdk.BuildVersionHeader)
	}
	if res.StatusCode >= 300 && res.StatusCode < 400 && req.Header.Get("Upgrade") != "" {
		// When it opens a WebSocket, Coder's client follows redirects and sends the token.
		_ = res.Body.Close()
		return nil, errRedirected
	}
	return res, nil
}

// act sets the token of the Actor that makes the request, if there is one, or else the current token.
func (t *recorder) act(req *http.Request, seen *answer) error {
	actor := t.actor
	if actor == nil && changes(req) {
		actor = ActorFrom(req.Context())
	}
	if actor == nil {
		if t.currentToken != nil {
			setToken(req, t.currentToken())
		}
		return nil
	}
	var token string
	if seen != nil {
		seen.actor, seen.refused = actor.Username(), func() { actor.Refused(token) }
	}
	if base := req.URL.Scheme + "://" + req.URL.Host; base != actor.CoderURL() {
		return fmt.Errorf("bug: a request to %s would be made with a token for %s", base, actor.CoderURL())
	}
	var err error
	if token, err = actor.Token(req.Context()); err != nil {
		return err
	}
	setToken(req, token)
	return nil
}

func setToken(req *http.Request, token string) {
	req.Header.Del("Cookie")
	req.Header.Set(codersdk.SessionTokenHeader, token)
}

var errRedirected = errors.New("redirects are not followed")

func mediaType(h http.Header) string {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

// longestRetryAfter is the longest time that the operator waits because a server asks for it.
const longestRetryAfter = 10 * time.Minute

// retryAfter reads the header in Coder's format: seconds. A date, which proxies may send, is
// compared with the Date header of the same response, so that the local clock is not used. The result
// is at most longestRetryAfter.
func retryAfter(h http.Header) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.Atoi(value); err == nil && seconds > 0 {
		return time.Duration(min(seconds, int(longestRetryAfter/time.Second))) * time.Second
	}
	until, err := http.ParseTime(value)
	now, nowErr := http.ParseTime(h.Get("Date"))
	if err != nil || nowErr != nil || !until.After(now) {
		return 0
	}
	return min(until.Sub(now), longestRetryAfter)
}

// Metrics counts the requests to all Coder deployments.
type Metrics struct {
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

// NewMetrics creates the metrics and registers them.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coder_k8s_coder_requests_total",
			Help: "Requests to Coder, by path pattern, such as /api/v2/users/{}, method and status code. The code is 0 if there was no response, and other if it is not a code of HTTP.",
		}, []string{"endpoint", "method", "code"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "coder_k8s_coder_request_duration_seconds",
			Help:    "Time from a request to Coder until the headers of the response arrived.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"endpoint", "method", "code"}),
	}
	return m, errors.Join(collector.Register(registerer, &m.requests), collector.Register(registerer, &m.durations))
}

// Observe counts a request. It is meant for Config.Observe.
func (m *Metrics) Observe(call Call) {
	code := strconv.Itoa(call.Status)
	if call.Status != 0 && http.StatusText(call.Status) == "" {
		// A server may send any number of three digits, and each would be a new series.
		code = "other"
	}
	m.requests.WithLabelValues(call.Endpoint, call.Method, code).Inc()
	m.durations.WithLabelValues(call.Endpoint, call.Method, code).Observe(call.Duration.Seconds())
}
