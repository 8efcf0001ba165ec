package app

import (
	"context"
	"errors"
	"testing"

	"github.com/go-logr/logr"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
	"github.com/coder-k8s/coder-k8s/internal/tracing/tracingtest"
)

// The last spans reach the collector although the process ends, and the error of the
// process is returned.
func TestTheLastSpansAreSent(t *testing.T) {
	collector := tracingtest.New(t)
	options := NewOptions()
	options.Tracing = tracing.Options{Endpoint: collector.Address(), Insecure: true, SamplingRatio: 1}
	provider, err := options.startTracing(t.Context(), logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	ctx, cancel := context.WithCancel(t.Context())
	err = flushed(provider, logr.Discard(), polltest.Timeout(), func(ctx context.Context) error {
		cancel()
		_, span := provider.Begin(ctx, "the last pass")
		span.End()
		return broken
	})(ctx)
	if !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
	spans := collector.Spans()
	if len(spans) != 1 || spans[0].Name != "the last pass" || spans[0].Attributes["service.name"] != "coder-k8s" {
		t.Errorf("%v", spans)
	}
}

func TestNoTracingByDefault(t *testing.T) {
	provider, err := NewOptions().startTracing(t.Context(), logr.Discard())
	if err != nil || provider != nil {
		t.Errorf("%v, %v", provider, err)
	}
	if err := flushed(provider, logr.Discard(), polltest.Timeout(), func(context.Context) error { return nil })(t.Context()); err != nil {
		t.Error(err)
	}
}
