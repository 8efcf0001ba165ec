package tracing

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
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
	security, err := o.security()
	if err != nil {
		return nil, err
	}
	client, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint(o.Endpoint), security)
	if err != nil {
		return nil, fmt.Errorf("preparing to send traces to %s: %w", o.Endpoint, err)
	}
	return &Provider{sdk: sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sampler(o.SamplingRatio)),
		sdktrace.WithBatcher(&exporter{next: client, complain: complaints{logger: logger, endpoint: o.Endpoint}}),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", service.Name),
			attribute.String("service.version", service.Version),
			attribute.String("service.instance.id", service.Instance),
		)),
	)}, nil
}

// sampler samples a ratio of the traces by trace ID. A trace that its sender does not
// sample is not sampled here. A trace that its sender samples is sampled only if it is
// within the ratio, so that callers cannot exceed the ratio.
func sampler(ratio float64) sdktrace.Sampler {
	part := sdktrace.TraceIDRatioBased(ratio)
	return sdktrace.ParentBased(part, sdktrace.WithRemoteParentSampled(part))
}

func (o Options) security() (otlptracegrpc.Option, error) {
	if o.Insecure {
		return otlptracegrpc.WithInsecure(), nil
	}
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
	return otlptracegrpc.WithTLSCredentials(credentials.NewTLS(config)), nil
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
