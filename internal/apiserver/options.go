package apiserver

import (
	"errors"
	"fmt"
	"net"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	"k8s.io/apiserver/pkg/server/options"
)

// DefaultPort is the default port of the aggregated API.
const DefaultPort = 6443

// streamsPerConnection limits the concurrent requests of kube-apiserver, which sends all of them
// through one connection.
const streamsPerConnection = 1000

// Options are the command line options.
type Options struct {
	// SecureServing configures the address, and the certificate files if this program does not
	// issue the certificate.
	SecureServing *options.SecureServingOptions
	// Admission configures the admission plugins.
	Admission *options.AdmissionOptions
	// Audit configures the audit log. It is disabled unless there is a policy.
	Audit *options.AuditOptions
	// PriorityAndFairness queues requests by the cluster's FlowSchemas, rather than rejecting those
	// over a fixed number.
	PriorityAndFairness bool
}

// NewOptions returns Options with the defaults.
func NewOptions() *Options {
	serving := options.NewSecureServingOptions()
	serving.BindAddress = net.IPv4zero
	serving.BindPort = DefaultPort
	serving.HTTP2MaxStreamsPerConnection = streamsPerConnection
	// The library would write a self-signed certificate to this directory.
	serving.ServerCert.CertDirectory = ""
	admission := options.NewAdmissionOptions()
	resourcequota.Register(admission.Plugins)
	// It is the last plugin, so that requests that another plugin rejects do not count.
	admission.RecommendedPluginOrder = append(admission.RecommendedPluginOrder, resourcequota.PluginName)
	return &Options{
		SecureServing:       serving,
		Admission:           admission,
		Audit:               options.NewAuditOptions(),
		PriorityAndFairness: true,
	}
}

// AddFlags registers the flags. Their names are those of every Kubernetes API server, without a
// prefix.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	o.SecureServing.AddFlags(fs)
	// The certificate is read from a Secret or from the two files.
	_ = fs.MarkHidden("cert-dir")
	o.Admission.AddFlags(fs)
	o.Audit.AddFlags(fs)
	fs.BoolVar(&o.PriorityAndFairness, "enable-priority-and-fairness", o.PriorityAndFairness,
		"Queue requests to the aggregated API by the cluster's FlowSchemas, rather than refuse those over a fixed number.")
}

// Validate returns all errors in the options.
func (o *Options) Validate() []error {
	errs := o.SecureServing.Validate()
	errs = append(errs, o.Admission.Validate()...)
	errs = append(errs, o.Audit.Validate()...)
	if o.SecureServing.BindPort == 0 {
		errs = append(errs, errors.New("--secure-port is 0: the aggregated API cannot be switched off by its port; use --app to choose what runs"))
	}
	files := o.SecureServing.ServerCert.CertKey
	if (files.CertFile == "") != (files.KeyFile == "") {
		errs = append(errs, fmt.Errorf("--tls-cert-file (%q) and --tls-private-key-file (%q) must be set together", files.CertFile, files.KeyFile))
	}
	return errs
}

// ownCertificate reports whether this program issues the serving certificate.
func (o *Options) ownCertificate() bool {
	return o.SecureServing.ServerCert.CertKey.CertFile == "" && o.SecureServing.ServerCert.GeneratedCert == nil
}
