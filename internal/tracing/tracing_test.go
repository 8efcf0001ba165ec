package tracing_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"k8s.io/apiserver/pkg/endpoints/filterlatency"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
	"github.com/coder-k8s/coder-k8s/internal/tracing/tracingtest"
)

func TestOptions(t *testing.T) {
	for name, tc := range map[string]struct {
		options tracing.Options
		says    string
	}{
		"nothing":                  {tracing.NewOptions(), ""},
		"a collector":              {tracing.Options{Endpoint: "otel:4317", SamplingRatio: 0.1}, ""},
		"without TLS":              {tracing.Options{Endpoint: "[::1]:4317", Insecure: true}, ""},
		"with a CA":                {tracing.Options{Endpoint: "otel:4317", CAFile: "/ca.crt"}, ""},
		"a negative ratio":         {tracing.Options{SamplingRatio: -0.1}, "--tracing-sampling-ratio=-0.1 is not from 0 to 1"},
		"a ratio in percent":       {tracing.Options{SamplingRatio: 10}, "--tracing-sampling-ratio=10"},
		"a ratio that is none":     {tracing.Options{SamplingRatio: math.NaN()}, "--tracing-sampling-ratio=NaN"},
		"a URL":                    {tracing.Options{Endpoint: "http://me:hunter2@otel:4317"}, "--tracing-endpoint is not host:port"},
		"no port":                  {tracing.Options{Endpoint: "otel"}, "--tracing-endpoint is not host:port"},
		"no host":                  {tracing.Options{Endpoint: ":4317"}, "--tracing-endpoint is not host:port"},
		"a CA that nobody checks":  {tracing.Options{Endpoint: "otel:4317", Insecure: true, CAFile: "/ca.crt"}, "both given"},
		"a CA without a collector": {tracing.Options{CAFile: "/ca.crt"}, "without --tracing-endpoint"},
		"insecure, to nobody":      {tracing.Options{Insecure: true}, "without --tracing-endpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			err := errors.Join(tc.options.Validate()...)
			switch {
			case (err == nil) != (tc.says == ""):
				t.Errorf("the error is %v, want one with %q", err, tc.says)
			case err != nil && (!strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "hunter2")):
				t.Errorf("the error is %v, want one with %q and no password", err, tc.says)
			}
		})
	}
}

func TestWithoutACollectorThereIsNothing(t *testing.T) {
	provider, err := tracing.New(t.Context(), tracing.NewOptions(), tracing.Service{}, logr.Discard())
	if err != nil || provider != nil {
		t.Fatalf("got %v, %v", provider, err)
	}
	if next := http.DefaultTransport; provider.Wrap(next) != next {
		t.Error("transports are wrapped for nothing")
	}
	ctx, span := provider.Begin(t.Context(), "x")
	if tracing.End(span, nil); ctx != t.Context() {
		t.Error("a span that is none changes the context")
	}
	if inner, _ := tracing.Start(ctx, "y"); inner != ctx {
		t.Error("a span below none changes the context")
	}
	if err := errors.Join(provider.Flush(ctx), provider.Shutdown(ctx)); err != nil {
		t.Error(err)
	}
	header := http.Header{}
	if tracing.Inject(ctx, header); len(header) > 0 {
		t.Errorf("%v is sent without a trace", header)
	}
	if allocations := testing.AllocsPerRun(100, func() {
		_, span := tracing.Start(ctx, "y")
		tracing.End(span, nil)
	}); allocations > 0 {
		t.Errorf("a span that is none costs %g allocations", allocations)
	}
}

// A request to Kubernetes belongs to the trace of its context and propagates it. Requests
// without a trace, such as the watch of a cache, are not changed.
func TestARequestIsInItsTrace(t *testing.T) {
	collector := tracingtest.New(t)
	provider := collector.Provider(t)
	var sent http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header
		w.WriteHeader(http.StatusConflict)
	}))
	defer server.Close()
	ask := func(ctx context.Context) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, server.URL+"/api/v1/namespaces/n/secrets/s?token=hunter2", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := provider.Wrap(http.DefaultTransport).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
	if ask(t.Context()); sent.Get("Traceparent") != "" {
		t.Errorf("a request of no trace is sent as one of %s", sent.Get("Traceparent"))
	}
	ctx, root := provider.Begin(t.Context(), "Reconcile", tracing.Names("n", "s"))
	ask(ctx)
	tracing.End(root, errors.New("it failed"))
	id := root.SpanContext().TraceID().String()
	tree := collector.Trace(t, provider, id, "Reconcile")
	if diff := cmp.Diff([]string{"Reconcile", "Kubernetes PUT"}, tree.Path("Kubernetes")); diff != "" {
		t.Error(diff)
	}
	span, _ := tree.Find("Kubernetes")
	if want := "00-" + id + "-" + span.ID + "-01"; sent.Get("Traceparent") != want {
		t.Errorf("sent %q, want %q", sent.Get("Traceparent"), want)
	}
	if span.Attributes["http.response.status_code"] != "409" || !span.Failed || span.Attributes["url.path"] != "/api/v1/namespaces/n/secrets/s" {
		t.Errorf("%+v", span)
	}
	if first, _ := tree.Find("Reconcile"); !first.Failed || first.Message != "it failed" || first.Attributes["service.name"] != "test" {
		t.Errorf("%+v", first)
	}
	if len(collector.Spans()) != 2 {
		t.Errorf("%d spans, want those of the one trace: %v", len(collector.Spans()), collector.Spans())
	}
	noSecret(t, collector)
}

func noSecret(t *testing.T, collector *tracingtest.Collector) {
	t.Helper()
	if all := fmt.Sprint(collector.Spans()); strings.Contains(all, "hunter2") {
		t.Errorf("a span tells a secret: %s", all)
	}
}

// Cancellation is not recorded as an error.
func TestGivingUpIsNoFailure(t *testing.T) {
	collector := tracingtest.New(t)
	provider := collector.Provider(t)
	_, span := provider.Begin(t.Context(), "x")
	tracing.End(span, fmt.Errorf("asking: %w", context.Canceled))
	tree := collector.Trace(t, provider, span.SpanContext().TraceID().String(), "x")
	if got, _ := tree.Find("x"); got.Failed {
		t.Errorf("%+v", got)
	}
}

// An error may quote a complete URL.
func TestAnErrorTellsNoCredential(t *testing.T) {
	collector := tracingtest.New(t)
	provider := collector.Provider(t)
	_, span := provider.Begin(t.Context(), "work")
	tracing.End(span, errors.New("dial postgres://coder:hunter2@db:5432: refused, Authorization: Bearer hunter2hunter2"))
	tree := collector.Trace(t, provider, span.SpanContext().TraceID().String(), "work")
	if got, _ := tree.Find("work"); !got.Failed || !strings.Contains(got.Message, "refused") || strings.Contains(got.Message, "hunter2") {
		t.Errorf("%+v", got)
	}
}

// The caller's sampling decision does not override the ratio.
func TestSampling(t *testing.T) {
	collector := tracingtest.New(t)
	for name, tc := range map[string]struct {
		ratio  float64
		parent string
		want   bool
	}{
		"everything":                          {1, "", true},
		"nothing":                             {0, "", false},
		"nothing, whatever the caller wants":  {0, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false},
		"everything that the caller keeps":    {1, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", true},
		"not what the caller does not keep":   {1, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", false},
		"a part, and this trace is in it":     {0.5, "00-4bf92f3577b34da600ce929d0e0e4736-00f067aa0ba902b7-01", true},
		"a part, and this trace is not in it": {0.5, "00-4bf92f3577b34da6ffce929d0e0e4736-00f067aa0ba902b7-01", false},
	} {
		t.Run(name, func(t *testing.T) {
			provider, err := tracing.New(t.Context(), tracing.Options{Endpoint: collector.Address(), Insecure: true, SamplingRatio: tc.ratio},
				tracing.Service{}, logr.Discard())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = provider.Shutdown(context.Background()) }()
			ctx := tracing.Extract(t.Context(), http.Header{"Traceparent": {tc.parent}})
			_, span := provider.Begin(ctx, "x")
			if got := span.SpanContext().IsSampled(); got != tc.want {
				t.Errorf("kept is %v, want %v", got, tc.want)
			}
			if tc.parent != "" && !strings.Contains(tc.parent, span.SpanContext().TraceID().String()) {
				t.Errorf("the trace of the caller does not go on: %s", span.SpanContext().TraceID())
			}
		})
	}
}

// The API server library continues the trace of any caller. It creates no spans for
// non-resource requests, and none for its filters.
func TestAPIServer(t *testing.T) {
	collector := tracingtest.New(t)
	provider := collector.Provider(t)
	spans := provider.APIServer()
	handler := filters.WithTracing(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, span := tracing.Start(r.Context(), "within")
		span.End()
	}), spans)
	handler = filterlatency.TrackStarted(handler, spans, "authentication")
	const parent = "4bf92f3577b34da6a3ce929d0e0e4736"
	for _, info := range []*request.RequestInfo{
		{IsResourceRequest: true, APIPrefix: "apis", APIGroup: "g", APIVersion: "v1", Resource: "things", Name: "a", Namespace: "n"},
		{Path: "/readyz"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/somewhere?fieldSelector=hunter2", nil)
		r.Header.Set("Traceparent", "00-"+parent+"-00f067aa0ba902b7-01")
		handler.ServeHTTP(httptest.NewRecorder(), r.WithContext(request.WithRequestInfo(r.Context(), info)))
	}
	const name = "GET /apis/g/v1/namespaces/{:namespace}/things/{:name}"
	tree := collector.Trace(t, provider, parent, name)
	if diff := cmp.Diff([]string{name, "within"}, tree.Path("within")); diff != "" {
		t.Error(diff)
	}
	first, _ := tree.Find(name)
	if first.Parent != "00f067aa0ba902b7" || first.Attributes["http.target"] != "/somewhere" {
		t.Errorf("%+v", first)
	}
	if len(collector.Spans()) != 2 {
		t.Errorf("there are other spans: %v", collector.Spans())
	}
	noSecret(t, collector)
	if err := spans.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if _, span := provider.Begin(t.Context(), "later"); !span.IsRecording() {
		t.Error("the end of the server ended the traces of the process")
	}
}

// Queries are removed from the spans of all libraries.
func TestNoQueryLeavesTheProcess(t *testing.T) {
	collector := tracingtest.New(t)
	provider := collector.Provider(t)
	_, span := provider.Begin(t.Context(), "x", trace.WithAttributes(
		attribute.String("url.full", "https://a/b?token=hunter2"), attribute.String("http.url", "https://a/b?hunter2"),
		attribute.String("http.target", "/b?hunter2"), attribute.String("url.query", "hunter2"), attribute.String("kept", "why?"),
	))
	span.End()
	tree := collector.Trace(t, provider, span.SpanContext().TraceID().String(), "x")
	got, _ := tree.Find("x")
	for key, want := range map[string]string{"url.full": "https://a/b", "http.url": "https://a/b", "http.target": "/b", "url.query": "", "kept": "why?"} {
		if got.Attributes[key] != want {
			t.Errorf("%s is %q, want %q", key, got.Attributes[key], want)
		}
	}
	noSecret(t, collector)
}

// An unavailable collector blocks nothing and does not flood the log.
func TestACollectorThatIsGone(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	logger := funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, args)
	}, funcr.Options{})
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "50")
	provider, err := tracing.New(t.Context(), tracing.Options{Endpoint: "127.0.0.1:1", Insecure: true, SamplingRatio: 1}, tracing.Service{}, logger)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, span := provider.Begin(t.Context(), "x")
		span.End()
		if err := provider.Flush(t.Context()); err != nil {
			t.Errorf("a lost span is an error: %v", err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	begin := time.Now()
	_ = provider.Shutdown(ctx)
	took := time.Since(begin)
	t.Logf("the end took %s", took)
	if took > polltest.Timeout() {
		t.Error("the end waited for the collector")
	}
	mu.Lock()
	defer mu.Unlock()
	if len(lines) != 1 || !strings.Contains(lines[0], "Traces do not reach the collector") {
		t.Errorf("the log has %q, want one line", lines)
	}
}

func TestTLS(t *testing.T) {
	pair, ca := certificate(t)
	collector := tracingtest.New(t, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})))
	provider, err := tracing.New(t.Context(), tracing.Options{Endpoint: collector.Address(), CAFile: ca, SamplingRatio: 1}, tracing.Service{}, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	_, span := provider.Begin(t.Context(), "x")
	span.End()
	collector.Trace(t, provider, span.SpanContext().TraceID().String(), "x")
	if err := provider.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}

	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, says := range map[string]string{empty: "has no certificate in PEM form", empty + "-none": "reading --tracing-ca-file"} {
		_, err := tracing.New(t.Context(), tracing.Options{Endpoint: "otel:4317", CAFile: file}, tracing.Service{}, logr.Discard())
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", file, err, says)
		}
	}
}

// certificate returns a self-signed certificate for 127.0.0.1, and a file that contains it.
func certificate(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

func TestCleanRequestID(t *testing.T) {
	for id, want := range map[string]string{
		"":                                     "",
		"6f1c2f0e-5d0b-4e4d-9a68-1a2b3c4d5e6f": "6f1c2f0e-5d0b-4e4d-9a68-1a2b3c4d5e6f",
		"CI_run.7":                             "CI_run.7",
		"a b\"c\\d\n(e)":                       "a_b_c_d__e_",
		"ünicode":                              "_nicode",
		strings.Repeat("x", 65):                strings.Repeat("x", 64),
	} {
		if got := tracing.CleanRequestID(id); got != want {
			t.Errorf("%q becomes %q, want %q", id, got, want)
		}
	}
}

func TestRequestID(t *testing.T) {
	if id := tracing.RequestID(t.Context()); id != "" {
		t.Errorf("a context of no request has the id %q", id)
	}
	ctx := tracing.WithRequestID(t.Context(), "a b")
	if id := tracing.RequestID(ctx); id != "a_b" {
		t.Errorf("got %q", id)
	}
	if tracing.WithRequestID(ctx, "") != ctx {
		t.Error("an empty id changes the context")
	}
}
