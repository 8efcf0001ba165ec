package protocol

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
)

// sdkLog logs all messages of the SDK at the detail level. The SDK logs every request, and
// logs mistakes of clients as errors, with which anyone could flood the log.
type sdkLog struct{ slog.Handler }

func newSDKLog(logger logr.Logger) *slog.Logger {
	return slog.New(sdkLog{logr.ToSlogHandler(logger.V(1))})
}

// Enabled implements slog.Handler.
func (h sdkLog) Enabled(ctx context.Context, _ slog.Level) bool {
	return h.Handler.Enabled(ctx, slog.LevelInfo)
}

// Handle implements slog.Handler.
func (h sdkLog) Handle(ctx context.Context, record slog.Record) error {
	record.Level = slog.LevelInfo
	return h.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (h sdkLog) WithAttrs(attrs []slog.Attr) slog.Handler { return sdkLog{h.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (h sdkLog) WithGroup(name string) slog.Handler { return sdkLog{h.Handler.WithGroup(name)} }
