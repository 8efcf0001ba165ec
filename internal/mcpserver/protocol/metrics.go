package protocol

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/coder-k8s/coder-k8s/internal/kube/collector"
)

// Metrics contains the metrics of the MCP server.
type Metrics struct {
	// tools contains the names that can be a label.
	tools     sets.Set[string]
	calls     *prometheus.CounterVec
	durations *prometheus.HistogramVec
	requests  *prometheus.CounterVec

	// Authentications counts authentications by outcome.
	Authentications *prometheus.CounterVec
	// RateLimited counts the requests of users who make too many.
	RateLimited prometheus.Counter
	// InFlight is the number of requests in flight.
	InFlight prometheus.Gauge
}

// NewMetrics creates the metrics of a server with these tools, and registers them unless
// registerer is nil.
func NewMetrics(registerer prometheus.Registerer, tools []string) (*Metrics, error) {
	m := &Metrics{
		tools: sets.New(tools...),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coder_k8s_mcp_tool_calls_total",
			Help: "Calls of MCP tools, by tool (unknown if there is no tool of that name) and outcome: ok, invalid, denied, notfound, conflict, unavailable, timeout, cancelled, declined, needsinput, failed (the work that the call waited for) or error.",
		}, []string{"tool", "outcome"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "coder_k8s_mcp_tool_duration_seconds",
			Help:    "Duration of calls of MCP tools, including the time that a tool waits.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600},
		}, []string{"tool"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coder_k8s_mcp_requests_total",
			Help: "Completed requests to the MCP server, by HTTP method and status code. Rejected requests are included.",
		}, []string{"method", "code"}),
		Authentications: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coder_k8s_mcp_authentications_total",
			Help: "Authentications of requests to the MCP server, by outcome: ok, missing (no token), invalid (token not accepted), limited (not checked, because too many unknown tokens are being checked), refused (an account that may never use the server), denied (no permission for the server), unavailable (token or permission could not be checked).",
		}, []string{"outcome"}),
		RateLimited: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coder_k8s_mcp_rate_limited_total",
			Help: "Requests that the MCP server rejected because the user exceeded the rate limit.",
		}),
		InFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "coder_k8s_mcp_in_flight",
			Help: "Requests that the MCP server is processing.",
		}),
	}
	if registerer == nil {
		return m, nil
	}
	return m, errors.Join(
		collector.Register(registerer, &m.calls), collector.Register(registerer, &m.durations),
		collector.Register(registerer, &m.requests), collector.Register(registerer, &m.Authentications),
		collector.Register(registerer, &m.RateLimited), collector.Register(registerer, &m.InFlight),
	)
}

// calledTool counts a call of a tool and its duration. The name of the tool is chosen by the
// client and may not exist.
func (m *Metrics) calledTool(tool, outcome string, took time.Duration) {
	if !m.tools.Has(tool) {
		tool = "unknown"
	}
	m.calls.WithLabelValues(tool, outcome).Inc()
	m.durations.WithLabelValues(tool).Observe(took.Seconds())
}

// Answered counts a response by the request's HTTP method and the status. All methods that
// the protocol does not use have one label.
func (m *Metrics) Answered(method string, status int) {
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodOptions:
	default:
		method = "other"
	}
	m.requests.WithLabelValues(method, strconv.Itoa(status)).Inc()
}
