package streams

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// detailLevel is the verbosity of what a client did to its own connection.
const detailLevel = 4

// quiet returns a context whose logger logs errors as details. The server of
// WebSockets logs each client that closes its connection as an error.
func quiet(ctx context.Context) context.Context {
	logger := klog.FromContext(ctx)
	if logger.GetSink() == nil {
		return ctx
	}
	return klog.NewContext(ctx, logger.WithSink(details{logger.GetSink()}))
}

type details struct{ logr.LogSink }

// Error implements logr.LogSink.
func (d details) Error(err error, message string, values ...any) {
	if d.Enabled(detailLevel) {
		d.Info(detailLevel, message, append(values, "error", err)...)
	}
}
