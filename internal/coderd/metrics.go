package coderd

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coder-k8s/coder-k8s/internal/kube/collector"
)

// Metrics counts the requests to all Coder deployments.
type Metrics struct {
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

// NewMetrics creates the metrics and registers them.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coder_k8s_coder_requests_total",
			Help: "Requests to Coder, by path pattern, such as /api/v2/users/{}, method and status code. The code is 0 if there was no response, and other if it is not a code of HTTP.",
		}, []string{"endpoint", "method", "code"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "coder_k8s_coder_request_duration_seconds",
			Help:    "Time from a request to Coder until the headers of the response arrived.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"endpoint", "method", "code"}),
	}
	return m, errors.Join(collector.Register(registerer, &m.requests), collector.Register(registerer, &m.durations))
}

// Observe counts a request. It is meant for Config.Observe.
func (m *Metrics) Observe(call Call) {
	code := strconv.Itoa(call.Status)
	if call.Status != 0 && http.StatusText(call.Status) == "" {
		// A server may send any number of three digits, and each would be a new series.
		code = "other"
	}
	m.requests.WithLabelValues(call.Endpoint, call.Method, code).Inc()
	m.durations.WithLabelValues(call.Endpoint, call.Method, code).Observe(call.Duration.Seconds())
}
