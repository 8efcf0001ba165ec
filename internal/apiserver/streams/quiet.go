package streams

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// detailLevel is the log verbosity of events that a client causes on its own connection.
const detailLevel = 4

// quiet returns a context whose logger logs errors at detailLevel. The WebSocket server logs an
// error for each client that closes its connection.
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
