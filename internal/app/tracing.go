package app

import (
	"context"
	"os"
	"time"

	"github.com/go-logr/logr"

	"github.com/coder-k8s/coder-k8s/internal/tracing"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

// flushTime bounds how long the end of the process waits for the collector.
const flushTime = 2 * time.Second

// startTracing begins to make spans, or does nothing where no collector is named.
func (o *Options) startTracing(ctx context.Context, logger logr.Logger) (*tracing.Provider, error) {
	instance, err := os.Hostname()
	if err != nil {
		instance = "unknown"
	}
	return tracing.New(ctx, o.Tracing, tracing.Service{
		Name: "coder-k8s", Version: version.Version(), Instance: instance,
	}, logger.WithName("tracing"))
}

// flushed runs something and then sends the spans that are left, those of its last
// moments among them, for no longer than a time.
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
