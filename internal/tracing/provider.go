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

// Service is who the spans are from.
type Service struct {
	// Name and Version are those of the program, Instance that of the pod.
	Name, Version, Instance string
}

// Provider makes the spans of this process and sends them to the collector. It is
// safe for concurrent use. Nil makes none.
type Provider struct {
	sdk *sdktrace.TracerProvider
}

// New makes a provider, or none where the options name no collector. It opens no
// connection: a collector may come later and go. Its error is a CA file that cannot
// be used. Environment variables OTEL_EXPORTER_OTLP_HEADERS and
// OTEL_EXPORTER_OTLP_TIMEOUT are followed.
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

// sampler keeps a part of the traces, chosen by their ids. A trace that its sender
// does not keep is not kept here; one that its sender keeps is one of the part or
// not, so that no caller can have everything kept.
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

// Flush sends what was not sent yet, as far as ctx allows.
func (p *Provider) Flush(ctx context.Context) error {
	if p == nil {
		return nil
	}
	return p.sdk.ForceFlush(ctx)
}

// Shutdown sends what was not sent yet, as far as ctx allows, and makes no spans
// after that.
func (p *Provider) Shutdown(ctx context.Context) error {
	if p == nil {
		return nil
	}
	if err := p.sdk.Shutdown(ctx); err != nil {
		return fmt.Errorf("sending the last traces: %w", err)
	}
	return nil
}
