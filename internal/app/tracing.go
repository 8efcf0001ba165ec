package app

import (
	"context"
	"os"
	"time"

	"github.com/go-logr/logr"

	"github.com/coder-k8s/coder-k8s/internal/tracing"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

// flushTime limits how long the shutdown waits for the collector.
const flushTime = 2 * time.Second

// startTracing returns the trace provider, or nil if tracing is disabled.
func (o *Options) startTracing(ctx context.Context, logger logr.Logger) (*tracing.Provider, error) {
	instance, err := os.Hostname()
	if err != nil {
		instance = "unknown"
	}
	return tracing.New(ctx, o.Tracing, tracing.Service{
		Name: "coder-k8s", Version: version.Version(), Instance: instance,
	}, logger.WithName("tracing"))
}

// flushed returns a function that calls run and then sends the pending spans, within
// atMost.
func flushed(provider *tracing.Provider, logger logr.Logger, atMost time.Duration, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := run(ctx)
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), atMost)
		defer cancel()
		if lost := provider.Shutdown(bounded); lost != nil {
			logger.Info("Some traces were not sent", "reason", lost.Error())
		}
		return err
	}
}
