package tracing

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/credentials"
)

// Service identifies the process in its spans.
type Service struct {
	// Name and Version are those of the program; Instance is the name of the pod.
	Name, Version, Instance string
}

// Provider creates the spans of this process and sends them to the collector. It is safe
// for concurrent use. A nil *Provider creates none.
type Provider struct {
	sdk *sdktrace.TracerProvider
}

// New returns a provider, or nil if the options contain no endpoint. It opens no
// connection: the collector may become available later. It returns an error if the CA file
// is invalid. The environment variables OTEL_EXPORTER_OTLP_HEADERS and
// OTEL_EXPORTER_OTLP_TIMEOUT are supported.
func New(ctx context.Context, o Options, service Service, logger logr.Logger) (*Provider, error) {
	if o.Endpoint == "" {
		return nil, nil
	}
	security := otlptracegrpc.WithInsecure()
	if !o.Insecure {
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if o.CAFile != "" {
			pem, err := os.ReadFile(o.CAFile)
			if err != nil {
				return nil, fmt.Errorf("reading --%s: %w", flagCAFile, err)
			}
			config.RootCAs = x509.NewCertPool()
			if !config.RootCAs.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("--%s: %s has no certificate in PEM form", flagCAFile, o.CAFile)
			}
		}
		security = otlptracegrpc.WithTLSCredentials(credentials.NewTLS(config))
	}
	client, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint(o.Endpoint), security)
	if err != nil {
		return nil, fmt.Errorf("preparing to send traces to %s: %w", o.Endpoint, err)
	}
	// A trace that its sender does not sample is not sampled here. A trace that its sender samples is sampled only if it is
	// within the ratio, so that callers cannot exceed the ratio.
	part := sdktrace.TraceIDRatioBased(o.SamplingRatio)
	return &Provider{sdk: sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.ParentBased(part, sdktrace.WithRemoteParentSampled(part))),
		sdktrace.WithBatcher(&exporter{next: client, logger: logger, endpoint: o.Endpoint, sometimes: rate.Sometimes{Interval: time.Minute}}),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", service.Name),
			attribute.String("service.version", service.Version),
			attribute.String("service.instance.id", service.Instance),
		)),
	)}, nil
}

// Flush sends the pending spans until ctx ends.
func (p *Provider) Flush(ctx context.Context) error {
	if p == nil {
		return nil
	}
	return p.sdk.ForceFlush(ctx)
}

// Shutdown sends the pending spans until ctx ends. The provider creates no spans after
// that.
func (p *Provider) Shutdown(ctx context.Context) error {
	if p == nil {
		return nil
	}
	if err := p.sdk.Shutdown(ctx); err != nil {
		return fmt.Errorf("sending the last traces: %w", err)
	}
	return nil
}

const (
	flagEndpoint = "tracing-endpoint"
	flagInsecure = "tracing-insecure"
	flagCAFile   = "tracing-ca-file"
	flagRatio    = "tracing-sampling-ratio"
)

// Options are the flags, which AddFlags describes.
type Options struct {
	Endpoint      string
	Insecure      bool
	CAFile        string
	SamplingRatio float64
}

// NewOptions returns the defaults. By default, tracing is disabled.
func NewOptions() Options { return Options{SamplingRatio: 1} }

// AddFlags registers the flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Endpoint, flagEndpoint, o.Endpoint,
		"host:port of the OpenTelemetry collector to send traces to, over OTLP and gRPC (default: no traces)")
	fs.BoolVar(&o.Insecure, flagInsecure, o.Insecure, "send traces without TLS")
	fs.StringVar(&o.CAFile, flagCAFile, o.CAFile,
		"file with the CA certificates that the collector's certificate is verified with (default: those of the system)")
	fs.Float64Var(&o.SamplingRatio, flagRatio, o.SamplingRatio,
		"the fraction of traces that are sent, from 0 to 1; other programs with the same ratio send the same traces")
}

// Validate returns all errors in the options.
func (o *Options) Validate() []error {
	var errs []error
	if o.SamplingRatio < 0 || o.SamplingRatio > 1 || o.SamplingRatio != o.SamplingRatio {
		errs = append(errs, fmt.Errorf("--%s=%g is not from 0 to 1; 0.1 keeps every tenth trace", flagRatio, o.SamplingRatio))
	}
	if o.Insecure && o.CAFile != "" {
		errs = append(errs, fmt.Errorf("--%s and --%s are both given: without TLS there is no certificate to check; keep one", flagInsecure, flagCAFile))
	}
	host, port, err := net.SplitHostPort(o.Endpoint)
	switch {
	case o.Endpoint != "" && (err != nil || host == "" || port == ""):
		// The error does not contain the value, which may be a URL with a password.
		errs = append(errs, errors.New("--"+flagEndpoint+" is not host:port, for example otel-collector.monitoring:4317; it has no scheme and no path"))
	case o.Endpoint == "" && (o.Insecure || o.CAFile != ""):
		errs = append(errs, fmt.Errorf("--%s or --%s is given without --%s: name the collector, for example otel-collector.monitoring:4317", flagInsecure, flagCAFile, flagEndpoint))
	}
	return errs
}

// exporter removes queries from spans before it exports them. It logs lost spans itself, at
// most once a minute, because the library would write to another log for each error.
type exporter struct {
	next      sdktrace.SpanExporter
	logger    logr.Logger
	endpoint  string
	lost      atomic.Int64
	sometimes rate.Sometimes
}

func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	shown := make([]sdktrace.ReadOnlySpan, len(spans))
	for i, span := range spans {
		shown[i] = withoutQuery{span}
	}
	if err := e.next.ExportSpans(ctx, shown); err != nil {
		e.lost.Add(int64(len(spans)))
		e.sometimes.Do(func() {
			e.logger.Info("Traces do not reach the collector; check --tracing-endpoint and the collector",
				"collector", e.endpoint, "spans", e.lost.Swap(0), "error", err.Error())
		})
	}
	return nil
}

func (e *exporter) Shutdown(ctx context.Context) error { return e.next.Shutdown(ctx) }

// withoutQuery is a span without queries in its URLs, because queries may contain
// confidential data.
type withoutQuery struct{ sdktrace.ReadOnlySpan }

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
