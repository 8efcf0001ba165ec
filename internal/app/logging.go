package app

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strconv"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	uberzap "go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

const (
	logFormatJSON    = "json"
	logFormatConsole = "console"

	maxVerbosity = 10
)

// LogOptions configure the format and the level of the log.
type LogOptions struct {
	Format, Level string
}

func (o *LogOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Format, "log-format", o.Format, "json, or console for a human-readable format")
	fs.StringVar(&o.Level, "log-level", o.Level, "error, info, debug, or a number up to 10: higher numbers log more")
}

func (o *LogOptions) validate() error {
	if o.Format != logFormatJSON && o.Format != logFormatConsole {
		return fmt.Errorf("--log-format=%s is not known; it is %s or %s", o.Format, logFormatJSON, logFormatConsole)
	}
	_, err := o.verbosity()
	return err
}

// verbosity returns the level as logr defines it: 0 is info, higher numbers log more; -1
// logs only errors.
func (o *LogOptions) verbosity() (int, error) {
	switch o.Level {
	case "error":
		return -1, nil
	case "info":
		return 0, nil
	case "debug":
		return 1, nil
	}
	n, err := strconv.Atoi(o.Level)
	if err != nil || n < 0 || n > maxVerbosity {
		return 0, fmt.Errorf("--log-level=%s is not known; it is error, info, debug or a number from 0 to %d", o.Level, maxVerbosity)
	}
	return n, nil
}

// setup configures all loggers of this process, including those of the Kubernetes
// libraries, to write to w in one format.
func (o *LogOptions) setup(w io.Writer) (logr.Logger, error) {
	verbosity, err := o.verbosity()
	if err != nil {
		return logr.Logger{}, err
	}
	level := zapcore.Level(-verbosity)
	if verbosity < 0 {
		level = zapcore.ErrorLevel
	}
	encoder := zap.JSONEncoder(entries)
	if o.Format == logFormatConsole {
		encoder = zap.ConsoleEncoder(entries)
	}
	logger := zap.New(encoder, zap.WriteTo(w),
		zap.Level(uberzap.NewAtomicLevelAt(level)),
		zap.StacktraceLevel(zapcore.DPanicLevel))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger.WithName("klog"))
	slog.SetDefault(slog.New(logr.ToSlogHandler(logger)))
	// klog checks its own flag before it calls the logger.
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	if err := flags.Set("v", strconv.Itoa(max(verbosity, 0))); err != nil {
		return logr.Logger{}, fmt.Errorf("setting the verbosity of klog: %w", err)
	}
	return logger, nil
}

// entries configures the encoding of times and levels. zap has no names for levels below
// debug.
func entries(c *zapcore.EncoderConfig) {
	c.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	c.EncodeLevel = func(level zapcore.Level, out zapcore.PrimitiveArrayEncoder) {
		zapcore.LowercaseLevelEncoder(max(level, zapcore.DebugLevel), out)
	}
}
