package mirror

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coder-k8s/coder-k8s/internal/kube/collector"
)

// Metrics are the Prometheus metrics of the mirror.
type Metrics struct {
	lag, objects, held, state *prometheus.GaugeVec
	syncs, commits            *prometheus.CounterVec
	leader                    prometheus.Gauge
}

// NewMetrics returns the metrics and registers them.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		lag: gauge("coder_k8s_mirror_lag_seconds",
			"Time since the last successful read of Coder's builds. Later changes in Coder are not served yet.", "namespace", "name"),
		syncs: counter("coder_k8s_mirror_syncs_total",
			"Full reads of a control plane's objects, by result: first, recovery, takeover (by a new leader, which reads only changes) or failed.",
			"namespace", "name", "result"),
		objects: gauge("coder_k8s_mirror_objects",
			"Number of objects of a control plane that are served.", "namespace", "name", "kind"),
		held: gauge("coder_k8s_mirror_held_deletions",
			"Deletions that the circuit breaker holds back until they are confirmed. The circuit breaker is open while the value is not 0.",
			"namespace", "name", "kind"),
		state: gauge("coder_k8s_mirror_state",
			"1 for the current state of a control plane (Syncing, Ready, Stale or Quarantined), 0 for the other states.",
			"namespace", "name", "state"),
		commits: counter("coder_k8s_mirror_changes_total",
			"Changed objects that the mirror wrote to their records.", "kind"),
		leader: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "coder_k8s_mirror_leader",
			Help: "1 on the replica that reads from the Coders, 0 on the others.",
		}),
	}
	return m, errors.Join(
		collector.Register(registerer, &m.leader),
		collector.Register(registerer, &m.lag), collector.Register(registerer, &m.syncs), collector.Register(registerer, &m.objects),
		collector.Register(registerer, &m.held), collector.Register(registerer, &m.state), collector.Register(registerer, &m.commits),
	)
}

// forget deletes the metrics of a control plane, after its release or when another replica becomes
// the leader.
func (m *Metrics) forget(controlPlane types.NamespacedName) {
	labels := prometheus.Labels{"namespace": controlPlane.Namespace, "name": controlPlane.Name}
	for _, vec := range []*prometheus.GaugeVec{m.lag, m.objects, m.held, m.state} {
		vec.DeletePartialMatch(labels)
	}
	m.syncs.DeletePartialMatch(labels)
}
