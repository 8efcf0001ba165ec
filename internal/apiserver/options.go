package apiserver

import (
	"errors"
	"fmt"
	"net"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	"k8s.io/apiserver/pkg/server/options"
)

// DefaultPort is where the aggregated API listens.
const DefaultPort = 6443

// streamsPerConnection is how many requests kube-apiserver may have under way
// at once. It sends all of them through one connection.
const streamsPerConnection = 1000

// Options are what a person sets on the command line.
type Options struct {
	// SecureServing has the address and, where the certificate is not ours to
	// make, its files.
	SecureServing *options.SecureServingOptions
	// Admission has the admission plugins.
	Admission *options.AdmissionOptions
	// Audit has the audit log, which is off unless it is given a policy.
	Audit *options.AuditOptions
	// PriorityAndFairness queues requests by the cluster's FlowSchemas rather
	// than refusing those over a fixed number.
	PriorityAndFairness bool
}

// NewOptions gives the defaults.
func NewOptions() *Options {
	serving := options.NewSecureServingOptions()
	serving.BindAddress = net.IPv4zero
	serving.BindPort = DefaultPort
	serving.HTTP2MaxStreamsPerConnection = streamsPerConnection
	// The library would write a self-signed certificate there.
	serving.ServerCert.CertDirectory = ""
	admission := options.NewAdmissionOptions()
	resourcequota.Register(admission.Plugins)
	// It is last, so that what another plugin refuses does not count.
	admission.RecommendedPluginOrder = append(admission.RecommendedPluginOrder, resourcequota.PluginName)
	return &Options{
		SecureServing:       serving,
		Admission:           admission,
		Audit:               options.NewAuditOptions(),
		PriorityAndFairness: true,
	}
}

// AddFlags registers the flags. They have no prefix, and the names that every
// Kubernetes API server gives them.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	o.SecureServing.AddFlags(fs)
	// The certificate comes from a Secret or from the two files.
	_ = fs.MarkHidden("cert-dir")
	o.Admission.AddFlags(fs)
	o.Audit.AddFlags(fs)
	fs.BoolVar(&o.PriorityAndFairness, "enable-priority-and-fairness", o.PriorityAndFairness,
		"Queue requests to the aggregated API by the cluster's FlowSchemas, rather than refuse those over a fixed number.")
}

// Validate gives all that is wrong with the options.
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

// ownCertificate says that the serving certificate is ours to make.
func (o *Options) ownCertificate() bool {
	return o.SecureServing.ServerCert.CertKey.CertFile == "" && o.SecureServing.ServerCert.GeneratedCert == nil
}
