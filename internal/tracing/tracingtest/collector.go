package tracingtest

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

// Collector stores all spans that it receives.
type Collector struct {
	collectortrace.UnimplementedTraceServiceServer
	address string

	mu    sync.Mutex
	spans []Span
}

// Span is a received span.
type Span struct {
	Name, Trace, ID, Parent string
	// Attributes are the attributes of the resource, the span and its events, as strings.
	Attributes map[string]string
	// Failed reports whether the status is an error; Message is its description.
	Failed  bool
	Message string
}

// New starts a collector that is stopped at the end of the test.
func New(t testing.TB, options ...grpc.ServerOption) *Collector {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Collector{address: listener.Addr().String()}
	server := grpc.NewServer(options...)
	collectortrace.RegisterTraceServiceServer(server, c)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return c
}

// Address returns the host:port of the collector.
func (c *Collector) Address() string { return c.address }

// Provider returns a provider that sends all spans to the collector.
func (c *Collector) Provider(t testing.TB) *tracing.Provider {
	t.Helper()
	provider, err := tracing.New(t.Context(), tracing.Options{Endpoint: c.address, Insecure: true, SamplingRatio: 1},
		tracing.Service{Name: "test", Version: "v0", Instance: "here"}, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	return provider
}

// Export implements the OTLP trace service.
func (c *Collector) Export(_ context.Context, request *collectortrace.ExportTraceServiceRequest) (*collectortrace.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				c.spans = append(c.spans, newSpan(span, resource.GetResource().GetAttributes()))
			}
		}
	}
	return &collectortrace.ExportTraceServiceResponse{}, nil
}

func newSpan(span *tracev1.Span, resource []*commonv1.KeyValue) Span {
	out := Span{
		Name: span.GetName(), Trace: hex.EncodeToString(span.GetTraceId()),
		ID: hex.EncodeToString(span.GetSpanId()), Parent: hex.EncodeToString(span.GetParentSpanId()),
		Failed:  span.GetStatus().GetCode() == tracev1.Status_STATUS_CODE_ERROR,
		Message: span.GetStatus().GetMessage(), Attributes: map[string]string{},
	}
	lists := [][]*commonv1.KeyValue{resource, span.GetAttributes()}
	for _, event := range span.GetEvents() {
		lists = append(lists, event.GetAttributes())
	}
	for _, pair := range slices.Concat(lists...) {
		out.Attributes[pair.GetKey()] = textOf(pair.GetValue())
	}
	return out
}

func textOf(value *commonv1.AnyValue) string {
	switch v := value.GetValue().(type) {
	case *commonv1.AnyValue_StringValue:
		return v.StringValue
	case *commonv1.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	default:
		return value.String()
	}
}

// Spans returns the spans that were received.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Trace flushes the provider and waits until the trace contains a span whose name begins
// with first. It returns the spans of the trace.
func (c *Collector) Trace(t testing.TB, provider *tracing.Provider, trace, first string) Tree {
	t.Helper()
	var tree Tree
	polltest.Eventually(t, fmt.Sprintf("span %q in trace %s", first, trace), func() error {
		if err := provider.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		tree = slices.DeleteFunc(c.Spans(), func(s Span) bool { return s.Trace != trace })
		if _, ok := tree.Find(first); !ok {
			return fmt.Errorf("there are %v", c.Spans())
		}
		return nil
	})
	return tree
}

// Tree contains the spans of one trace.
type Tree []Span

// Find returns the span whose name begins with prefix.
func (t Tree) Find(prefix string) (Span, bool) {
	i := slices.IndexFunc(t, func(s Span) bool { return strings.HasPrefix(s.Name, prefix) })
	if i < 0 {
		return Span{}, false
	}
	return t[i], true
}

// Path returns the names of the spans from the first span of the trace in this process to
// the one whose name begins with prefix.
func (t Tree) Path(prefix string) []string {
	span, ok := t.Find(prefix)
	if !ok {
		return nil
	}
	path := []string{span.Name}
	for {
		i := slices.IndexFunc(t, func(s Span) bool { return s.ID == span.Parent })
		if i < 0 {
			return path
		}
		span = t[i]
		path = slices.Insert(path, 0, span.Name)
	}
}
