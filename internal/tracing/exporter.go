package tracing

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// exporter removes queries from spans before it exports them. It logs errors itself,
// because the library would write them to another log.
type exporter struct {
	next     sdktrace.SpanExporter
	complain complaints
}

// ExportSpans implements sdktrace.SpanExporter.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	shown := make([]sdktrace.ReadOnlySpan, len(spans))
	for i, span := range spans {
		shown[i] = withoutQuery{span}
	}
	if err := e.next.ExportSpans(ctx, shown); err != nil {
		e.complain.about(err, len(spans))
	}
	return nil
}

// Shutdown implements sdktrace.SpanExporter.
func (e *exporter) Shutdown(ctx context.Context) error { return e.next.Shutdown(ctx) }

// withoutQuery is a span without queries in its URLs, because queries may contain
// confidential data.
type withoutQuery struct{ sdktrace.ReadOnlySpan }

// Attributes implements sdktrace.ReadOnlySpan.
func (s withoutQuery) Attributes() []attribute.KeyValue {
	all := slices.Clone(s.ReadOnlySpan.Attributes())
	for i, a := range all {
		switch a.Key {
		case "http.target", "http.url", "url.full":
			address, _, _ := strings.Cut(a.Value.AsString(), "?")
			all[i] = a.Key.String(address)
		}
	}
	return slices.DeleteFunc(all, func(a attribute.KeyValue) bool { return a.Key == "url.query" })
}

// quietTime is the minimum time between two log messages about a failing collector.
const quietTime = time.Minute

// complaints logs lost spans, at most once per quietTime.
type complaints struct {
	logger   logr.Logger
	endpoint string

	mu   sync.Mutex
	last time.Time
	lost int
}

func (c *complaints) about(err error, spans int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost += spans
	if now := time.Now(); c.last.IsZero() || now.Sub(c.last) >= quietTime {
		c.logger.Info("Traces do not reach the collector; check --tracing-endpoint and the collector",
			"collector", c.endpoint, "spans", c.lost, "error", err.Error())
		c.last, c.lost = now, 0
	}
}
