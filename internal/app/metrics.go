package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/coder-k8s/coder-k8s/internal/apiserver"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/certificates"
	"github.com/coder-k8s/coder-k8s/internal/kube/collector"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

const (
	// metricsSecret contains the certificate of the metrics endpoint, and the CA with which
	// Prometheus verifies it. It is part of the installation.
	metricsSecret = "coder-k8s-metrics-tls"
	// metricsService is the server name that Prometheus verifies.
	metricsService = "coder-k8s-metrics"
	// metricsLook is the interval at which the Secret is checked.
	metricsLook = 30 * time.Second
)

// MetricsOptions configure the address and the certificate of /metrics.
type MetricsOptions struct {
	// BindAddress is the address of the TLS endpoint, which requires permission to get
	// /metrics.
	BindAddress string
	// CertFile and KeyFile are read again when they change. If they are empty, the
	// certificate is in a Secret that the operator manages.
	CertFile, KeyFile string
}

func (o *MetricsOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.BindAddress, "metrics-bind-address", o.BindAddress,
		"host:port that serves /metrics over TLS to callers with the permission to get it; 0 disables it")
	fs.StringVar(&o.CertFile, "metrics-tls-cert-file", o.CertFile,
		"certificate of /metrics, read again when it changes (default: that of Secret "+metricsSecret+", which the operator fills)")
	fs.StringVar(&o.KeyFile, "metrics-tls-private-key-file", o.KeyFile, "private key of --metrics-tls-cert-file")
}

func (o *MetricsOptions) validate() []error {
	var errs []error
	if o.BindAddress != off {
		errs = append(errs, validateAddress("--metrics-bind-address", o.BindAddress))
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		errs = append(errs, fmt.Errorf("--metrics-tls-cert-file (%q) and --metrics-tls-private-key-file (%q) must be set together", o.CertFile, o.KeyFile))
	}
	return errs
}

func (o *MetricsOptions) server(certificate metricsCertificate) metricsserver.Options {
	options := metricsserver.Options{BindAddress: o.BindAddress, SecureServing: true, FilterProvider: admitMetricsReaders}
	if certificate != nil {
		options.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.GetCertificate = certificate.GetCertificate }}
	}
	return options
}

// admitMetricsReaders returns a filter that authenticates and authorizes callers with
// kube-apiserver. It serves the metrics of this process and those of the API server
// library, which has its own registry that the handler of controller-runtime does not
// include.
func admitMetricsReaders(config *rest.Config, client *http.Client) (metricsserver.Filter, error) {
	admit, err := filters.WithAuthenticationAndAuthorization(config, client)
	if err != nil {
		return nil, err
	}
	metrics := promhttp.HandlerFor(prometheus.Gatherers{ctrlmetrics.Registry, apiserver.LibraryGatherer()}, promhttp.HandlerOpts{
		// An error of one collector must not hide the metrics of the others.
		ErrorHandling: promhttp.ContinueOnError,
	})
	return func(log logr.Logger, _ http.Handler) (http.Handler, error) { return admit(log, metrics) }, nil
}

// metricsCertificate provides the certificate of the metrics endpoint. The manager runs it
// on every replica.
type metricsCertificate interface {
	manager.Runnable
	manager.LeaderElectionRunnable
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
}

// certificate returns the certificate from the files, or from the Secret in a namespace. It
// returns nil if metrics are disabled.
func (o *MetricsOptions) certificate(config *rest.Config, namespace string) (metricsCertificate, error) {
	if o.BindAddress == off {
		return nil, nil
	}
	if o.CertFile != "" {
		watcher, err := certwatcher.New(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("reading --metrics-tls-cert-file %s and --metrics-tls-private-key-file %s: %w", o.CertFile, o.KeyFile, err)
		}
		return watcher, nil
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for kube-apiserver: %w", err)
	}
	expiry, err := certificates.NewMetrics(ctrlmetrics.Registry)
	if err != nil {
		return nil, err
	}
	return newSecretCertificate(certificates.Config{
		Secrets: client.CoreV1().Secrets(namespace), Namespace: namespace,
		Secret: metricsSecret, Service: metricsService,
		Clock: clock.RealClock{}, Metrics: expiry,
	})
}

// secretCertificate provides the certificate in a Secret. Until the Secret contains one, it
// provides a self-signed certificate. So clients that do not verify it can read the metrics
// of a process that lacks permission for the Secret, or runs outside of a cluster.
type secretCertificate struct {
	keeper       *certificates.Manager
	unverifiable tls.Certificate
}

func newSecretCertificate(config certificates.Config) (*secretCertificate, error) {
	certificate, key, err := certutil.GenerateSelfSignedCertKey("localhost", nil, nil)
	var pair tls.Certificate
	if err == nil {
		pair, err = tls.X509KeyPair(certificate, key)
	}
	if err != nil {
		return nil, fmt.Errorf("creating a certificate for the metrics: %w", err)
	}
	return &secretCertificate{keeper: certificates.NewManager(config), unverifiable: pair}, nil
}

// NeedLeaderElection returns false, so that every replica serves.
func (*secretCertificate) NeedLeaderElection() bool { return false }

// Start keeps the certificate up to date until the context is done.
func (c *secretCertificate) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("metrics"))
	wait.UntilWithContext(ctx, c.look, metricsLook)
	return nil
}

func (c *secretCertificate) look(ctx context.Context) {
	if _, err := c.keeper.Look(ctx); err != nil && ctx.Err() == nil {
		log.FromContext(ctx).Error(err, "Serving metrics with a self-signed certificate that clients cannot verify; apply the installation again, which contains the Secret and the permission for it")
	}
}

// GetCertificate implements the field of tls.Config.
func (c *secretCertificate) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	certificate, key := c.keeper.Provider().CurrentCertKeyContent()
	if len(certificate) == 0 {
		return &c.unverifiable, nil
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the certificate and the key in Secret %s do not match", metricsSecret), err)
	}
	return &pair, nil
}

// RegisterBuildInfo registers the metric with the version of the process.
func RegisterBuildInfo(registerer prometheus.Registerer) error {
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "coder_k8s_build_info",
		Help: "Always 1. The labels are the version, the commit and the Go version of the build.",
	}, []string{"version", "commit", "go_version"})
	if err := collector.Register(registerer, &info); err != nil {
		return err
	}
	info.WithLabelValues(version.Version(), version.Commit(), version.Go()).Set(1)
	return nil
}
