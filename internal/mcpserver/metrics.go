package mcpserver

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coder-k8s/coder-k8s/internal/kube/collector"
)

const (
	// unknownTool is the label for all names that are not a tool.
	unknownTool = "unknown"
	// otherMethod is the label for all HTTP methods that the protocol does not use.
	otherMethod = "other"
)

// Metrics contains the metrics of the server. A nil *Metrics counts nothing.
type Metrics struct {
	// tools contains the names that can be a label.
	tools map[string]bool

	calls           *prometheus.CounterVec
	durations       *prometheus.HistogramVec
	requests        *prometheus.CounterVec
	authentications *prometheus.CounterVec
	rateLimited     prometheus.Counter
	inFlight        prometheus.Gauge
	sessions        prometheus.Gauge
	streams         prometheus.Gauge
}

// NewMetrics creates the metrics of a server with these tools and registers them.
func NewMetrics(registerer prometheus.Registerer, tools []string) (*Metrics, error) {
	m := &Metrics{
		tools: make(map[string]bool, len(tools)),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coder_k8s_mcp_tool_calls_total",
			Help: "Calls of MCP tools, by tool (unknown if there is no tool of that name) and outcome: ok, invalid, denied, notfound, conflict, unavailable, timeout, cancelled, declined, needsinput or error.",
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
		authentications: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coder_k8s_mcp_authentications_total",
			Help: "Authentications of requests to the MCP server, by outcome: ok, missing (no token), invalid (token not accepted), limited (not checked, because too many unknown tokens are being checked), refused (an account that may never use the server), denied (no permission for the server), unavailable (token or permission could not be checked).",
		}, []string{"outcome"}),
		rateLimited: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coder_k8s_mcp_rate_limited_total",
			Help: "Requests that the MCP server rejected because the user exceeded the rate limit.",
		}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "coder_k8s_mcp_in_flight",
			Help: "Requests that the MCP server is processing. Open streams are not counted.",
		}),
		sessions: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "coder_k8s_mcp_sessions",
			Help: "Open sessions of clients that use the protocol version 2025-11-25. Without --mcp-max-sessions there are no sessions.",
		}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "coder_k8s_mcp_streams",
			Help: "Open streams on which MCP clients wait for notifications.",
		}),
	}
	for _, tool := range tools {
		m.tools[tool] = true
	}
	return m, errors.Join(
		collector.Register(registerer, &m.calls), collector.Register(registerer, &m.durations),
		collector.Register(registerer, &m.requests), collector.Register(registerer, &m.authentications),
		collector.Register(registerer, &m.rateLimited), collector.Register(registerer, &m.inFlight),
		collector.Register(registerer, &m.sessions), collector.Register(registerer, &m.streams),
	)
}

// CalledTool counts a call of a tool and its duration.
func (m *Metrics) CalledTool(tool, outcome string, took time.Duration) {
	if m == nil {
		return
	}
	if !m.tools[tool] {
		tool = unknownTool
	}
	m.calls.WithLabelValues(tool, outcome).Inc()
	m.durations.WithLabelValues(tool).Observe(took.Seconds())
}

// Answered counts a response by the request's HTTP method and the status.
func (m *Metrics) Answered(method string, status int) {
	if m == nil {
		return
	}
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodOptions:
	default:
		method = otherMethod
	}
	m.requests.WithLabelValues(method, strconv.Itoa(status)).Inc()
}

// Authenticated counts the outcome of an authentication.
func (m *Metrics) Authenticated(outcome string) {
	if m != nil {
		m.authentications.WithLabelValues(outcome).Inc()
	}
}

// RateLimited counts a request that was rejected because its user makes too many.
func (m *Metrics) RateLimited() {
	if m != nil {
		m.rateLimited.Inc()
	}
}

// AddInFlight adds n to the number of requests in flight.
func (m *Metrics) AddInFlight(n int) {
	if m != nil {
		m.inFlight.Add(float64(n))
	}
}

// AddSessions adds n to the number of open sessions.
func (m *Metrics) AddSessions(n int) {
	if m != nil {
		m.sessions.Add(float64(n))
	}
}

// AddStreams adds n to the number of open streams.
func (m *Metrics) AddStreams(n int) {
	if m != nil {
		m.streams.Add(float64(n))
	}
}
