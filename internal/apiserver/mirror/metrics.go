package mirror

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
	"github.com/coder-k8s/coder-k8s/internal/kube/collector"
)

// Metrics are the Prometheus metrics of the mirror. All methods of a nil Metrics do nothing.
type Metrics struct {
	lag     *prometheus.GaugeVec
	syncs   *prometheus.CounterVec
	objects *prometheus.GaugeVec
	held    *prometheus.GaugeVec
	state   *prometheus.GaugeVec
	commits *prometheus.CounterVec
	leader  prometheus.Gauge
}

// NewMetrics returns the metrics and registers them.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		lag: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "coder_k8s_mirror_lag_seconds",
			Help: "Time since the last successful read of Coder's builds. Later changes in Coder are not served yet.",
		}, []string{"namespace", "name"}),
		syncs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coder_k8s_mirror_syncs_total",
			Help: "Full reads of a control plane's objects, by result: first, recovery, takeover (by a new leader, which reads only changes) or failed.",
		}, []string{"namespace", "name", "result"}),
		objects: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "coder_k8s_mirror_objects",
			Help: "Number of objects of a control plane that are served.",
		}, []string{"namespace", "name", "kind"}),
		held: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "coder_k8s_mirror_held_deletions",
			Help: "Deletions that the circuit breaker holds back until they are confirmed. The circuit breaker is open while the value is not 0.",
		}, []string{"namespace", "name", "kind"}),
		state: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "coder_k8s_mirror_state",
			Help: "1 for the current state of a control plane (Syncing, Ready, Stale or Quarantined), 0 for the other states.",
		}, []string{"namespace", "name", "state"}),
		commits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coder_k8s_mirror_changes_total",
			Help: "Changed objects that the mirror wrote to their records.",
		}, []string{"kind"}),
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

// leads records whether this replica mirrors: 1 or 0.
func (m *Metrics) leads(value float64) {
	if m != nil {
		m.leader.Set(value)
	}
}

// committed counts changes that were written into records.
func (m *Metrics) committed(kind string, changes int) {
	if m != nil {
		m.commits.WithLabelValues(kind).Add(float64(changes))
	}
}

// synced counts a full read by its result.
func (m *Metrics) synced(controlPlane types.NamespacedName, result string) {
	if m != nil {
		m.syncs.WithLabelValues(controlPlane.Namespace, controlPlane.Name, result).Inc()
	}
}

// observe records the lag and the state of a control plane.
func (m *Metrics) observe(controlPlane types.NamespacedName, state syncstatus.State, lag time.Duration) {
	if m == nil {
		return
	}
	m.lag.WithLabelValues(controlPlane.Namespace, controlPlane.Name).Set(lag.Seconds())
	for _, each := range []syncstatus.State{syncstatus.Syncing, syncstatus.Ready, syncstatus.Stale, syncstatus.Quarantined} {
		value := 0.0
		if each == state {
			value = 1
		}
		m.state.WithLabelValues(controlPlane.Namespace, controlPlane.Name, string(each)).Set(value)
	}
}

// counted records the number of objects of a kind in a control plane, and the number of their
// deletions that are held back.
func (m *Metrics) counted(controlPlane types.NamespacedName, kind string, objects, held int) {
	if m != nil {
		m.objects.WithLabelValues(controlPlane.Namespace, controlPlane.Name, kind).Set(float64(objects))
		m.held.WithLabelValues(controlPlane.Namespace, controlPlane.Name, kind).Set(float64(held))
	}
}

// forget deletes the metrics of a control plane, after its release or when another replica becomes
// the writer.
func (m *Metrics) forget(controlPlane types.NamespacedName) {
	if m == nil {
		return
	}
	labels := prometheus.Labels{"namespace": controlPlane.Namespace, "name": controlPlane.Name}
	for _, vec := range []*prometheus.GaugeVec{m.lag, m.objects, m.held, m.state} {
		vec.DeletePartialMatch(labels)
	}
	m.syncs.DeletePartialMatch(labels)
}
