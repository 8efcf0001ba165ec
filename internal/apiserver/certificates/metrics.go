package certificates

import (
	"github.com/prometheus/client_golang/prometheus"
	certutil "k8s.io/client-go/util/cert"

	"github.com/coder-k8s/coder-k8s/internal/kube/collector"
)

// Metrics exports the expiry of the serving certificates. A nil Metrics does nothing.
type Metrics struct {
	expiry *prometheus.GaugeVec
}

// NewMetrics returns registered Metrics.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{expiry: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "coder_k8s_certificate_expiry_timestamp_seconds",
		Help: "Expiry time of the serving certificate, by the Secret that holds it. A certificate that is read from files has no series.",
	}, []string{"secret"})}
	return m, collector.Register(registerer, &m.expiry)
}

// serving sets the expiry of the certificate that is served from a Secret.
func (m *Metrics) serving(secret string, chain []byte) {
	if m == nil {
		return
	}
	certificates, err := certutil.ParseCertsPEM(chain)
	if err != nil {
		m.expiry.DeleteLabelValues(secret)
		return
	}
	m.expiry.WithLabelValues(secret).Set(float64(certificates[0].NotAfter.Unix()))
}
