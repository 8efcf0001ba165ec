package tracing

import (
	"errors"
	"fmt"
	"net"

	"github.com/spf13/pflag"
)

const (
	flagEndpoint = "tracing-endpoint"
	flagInsecure = "tracing-insecure"
	flagCAFile   = "tracing-ca-file"
	flagRatio    = "tracing-sampling-ratio"
)

// Options are the flags.
type Options struct {
	// Endpoint is the host:port of the collector for OTLP over gRPC. If it is empty,
	// tracing is disabled.
	Endpoint string
	// Insecure disables TLS.
	Insecure bool
	// CAFile contains the certificates that verify the collector. If it is empty, those of
	// the system are used.
	CAFile string
	// SamplingRatio is the ratio of traces that are sampled, from 0 to 1.
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
		"file with the certificates that the collector is trusted by (default: those of the system)")
	fs.Float64Var(&o.SamplingRatio, flagRatio, o.SamplingRatio,
		"the part of all traces that is kept, from 0 to 1; with the same ratio elsewhere the same traces are kept there")
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
	if o.Endpoint == "" {
		if o.Insecure || o.CAFile != "" {
			errs = append(errs, fmt.Errorf("--%s or --%s is given without --%s: name the collector, for example otel-collector.monitoring:4317", flagInsecure, flagCAFile, flagEndpoint))
		}
		return errs
	}
	if err := validateEndpoint(o.Endpoint); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// validateEndpoint does not include the invalid value in its error, because it may be a URL
// with a password.
func validateEndpoint(endpoint string) error {
	host, port, err := net.SplitHostPort(endpoint)
	if err != nil || host == "" || port == "" {
		return errors.New("--" + flagEndpoint + " is not host:port, for example otel-collector.monitoring:4317; it has no scheme and no path")
	}
	return nil
}
