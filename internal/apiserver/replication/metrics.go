package replication

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coder-k8s/coder-k8s/internal/kube/collector"
)

// Metrics counts what replication does. Nil counts nothing.
type Metrics struct {
	isWriter       prometheus.Gauge
	followerCount  prometheus.Gauge
	lagSeconds     *prometheus.GaugeVec
	lagRevisions   *prometheus.GaugeVec
	takeovers      prometheus.Counter
	forwardedCount *prometheus.CounterVec
	resets         *prometheus.CounterVec
	drops          prometheus.Counter
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	gauge := func(name, help string) prometheus.GaugeOpts { return prometheus.GaugeOpts{Name: name, Help: help} }
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: name, Help: help}
	}
	m := &Metrics{
		isWriter: prometheus.NewGauge(gauge("coder_k8s_replication_writer",
			"1 where this replica decides the changes, else 0.")),
		followerCount: prometheus.NewGauge(gauge("coder_k8s_replication_followers",
			"Replicas that follow this one.")),
		lagSeconds: prometheus.NewGaugeVec(gauge("coder_k8s_replication_lag_seconds",
			"Time from the decision of the last change until this follower had it."), []string{"resource"}),
		lagRevisions: prometheus.NewGaugeVec(gauge("coder_k8s_replication_lag_revisions",
			"How far this follower's log is behind the writer's, in revisions (microseconds), when the writer last told."),
			[]string{"resource"}),
		takeovers: prometheus.NewCounter(counter("coder_k8s_replication_takeovers_total",
			"How often this replica became the writer.")),
		forwardedCount: prometheus.NewCounterVec(counter("coder_k8s_replication_forwarded_writes_total",
			"Writes that were sent to the writer, by outcome: done, refused, unavailable, unknown."),
			[]string{"resource", "outcome"}),
		resets: prometheus.NewCounterVec(counter("coder_k8s_replication_resets_total",
			"How often a log was replaced by a snapshot, which ends open watches."), []string{"resource"}),
		drops: prometheus.NewCounter(counter("coder_k8s_replication_dropped_followers_total",
			"How often a follower was dropped because it did not keep up.")),
	}
	return m, errors.Join(
		collector.Register(registerer, &m.isWriter), collector.Register(registerer, &m.followerCount), collector.Register(registerer, &m.lagSeconds),
		collector.Register(registerer, &m.lagRevisions), collector.Register(registerer, &m.takeovers), collector.Register(registerer, &m.forwardedCount),
		collector.Register(registerer, &m.resets), collector.Register(registerer, &m.drops),
	)
}

func (m *Metrics) writing(is bool) {
	if m == nil {
		return
	}
	if !is {
		m.isWriter.Set(0)
		return
	}
	m.isWriter.Set(1)
	m.takeovers.Inc()
	m.lagSeconds.Reset()
	m.lagRevisions.Reset()
}

func (m *Metrics) followers(count int) {
	if m != nil {
		m.followerCount.Set(float64(count))
	}
}

func (m *Metrics) dropped() {
	if m != nil {
		m.drops.Inc()
	}
}

func (m *Metrics) applied(resource string, lag float64) {
	if m != nil {
		m.lagSeconds.WithLabelValues(resource).Set(lag)
	}
}

func (m *Metrics) behind(resource string, revisions uint64) {
	if m != nil {
		m.lagRevisions.WithLabelValues(resource).Set(float64(revisions))
	}
}

func (m *Metrics) reset(resource string) {
	if m != nil {
		m.resets.WithLabelValues(resource).Inc()
	}
}

func (m *Metrics) forwarded(resource, outcome string) {
	if m != nil {
		m.forwardedCount.WithLabelValues(resource, outcome).Inc()
	}
}
