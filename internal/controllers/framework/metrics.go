package framework

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coder-k8s/coder-k8s/internal/kube/collector"
)

// Metrics holds the collectors of the controllers.
type Metrics struct {
	outcomes      *prometheus.CounterVec
	timeToReady   *prometheus.HistogramVec
	tokenExpiry   *prometheus.GaugeVec
	licenseExpiry *prometheus.GaugeVec
	ready         *prometheus.GaugeVec
	backups       backupGauges
}

// backupGauges are about the last complete backup of each schedule.
type backupGauges struct{ completed, due, duration, size *prometheus.GaugeVec }

// BackupMetrics describe the last complete backup of a schedule. A zero value is unknown.
type BackupMetrics struct {
	// Completed is when it was complete, and Due is the time of the next one.
	Completed, Due time.Time
	Took           time.Duration
	Bytes          int64
}

// NewMetrics creates the metrics and registers them.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coder_k8s_reconcile_outcomes_total",
			Help: "Reconciliations, by kind and by the reason of the object's condition Ready afterwards.",
		}, []string{"kind", "reason"}),
		timeToReady: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "coder_k8s_time_to_ready_seconds",
			Help:    "Time from the creation of an object, or from a change of its spec, until the object was Ready.",
			Buckets: []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600},
		}, []string{"kind"}),
		tokenExpiry: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "coder_k8s_operator_token_expiry_timestamp_seconds",
			Help: "Expiry time of the operator's token for a control plane. The operator replaces the token after two thirds of its lifetime.",
		}, []string{"namespace", "name"}),
		licenseExpiry: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "coder_k8s_license_expiry_timestamp_seconds",
			Help: "Expiry time of the license of a control plane (spec.licenseSecretRef).",
		}, []string{"namespace", "name"}),
		ready: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "coder_k8s_ready",
			Help: "1 if the condition Ready of an object is True, otherwise 0.",
		}, []string{"kind", "namespace", "name"}),
		backups: backupGauges{
			completed: backupGauge("completed_timestamp_seconds", "Time when the last complete backup of a schedule was completed."),
			due:       backupGauge("due_timestamp_seconds", "Time in the schedule of the backup after the last complete one. It is in the past while a backup is missing."),
			duration:  backupGauge("duration_seconds", "Duration of the last complete backup of a schedule."),
			size:      backupGauge("size_bytes", "Size of the dump of the last complete backup of a schedule."),
		},
	}
	return m, errors.Join(
		collector.Register(registerer, &m.outcomes), collector.Register(registerer, &m.timeToReady),
		collector.Register(registerer, &m.tokenExpiry), collector.Register(registerer, &m.licenseExpiry),
		collector.Register(registerer, &m.ready),
		collector.Register(registerer, &m.backups.completed), collector.Register(registerer, &m.backups.due),
		collector.Register(registerer, &m.backups.duration), collector.Register(registerer, &m.backups.size),
	)
}

func backupGauge(name, help string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "coder_k8s_backup_" + name, Help: help}, []string{"namespace", "name"})
}

// SetBackup records the last complete backup of a schedule.
func (m *Metrics) SetBackup(namespace, name string, b BackupMetrics) {
	set := func(gauge *prometheus.GaugeVec, known bool, value float64) {
		if !known {
			gauge.DeleteLabelValues(namespace, name)
			return
		}
		gauge.WithLabelValues(namespace, name).Set(value)
	}
	complete := !b.Completed.IsZero()
	set(m.backups.completed, complete, float64(b.Completed.Unix()))
	set(m.backups.due, !b.Due.IsZero(), float64(b.Due.Unix()))
	set(m.backups.duration, complete, b.Took.Seconds())
	set(m.backups.size, complete, float64(b.Bytes))
}

// Reconciled counts a reconciliation.
func (m *Metrics) Reconciled(kind, reason string) { m.outcomes.WithLabelValues(kind, reason).Inc() }

// BecameReady records how long an object took to become ready.
func (m *Metrics) BecameReady(kind string, took time.Duration) {
	m.timeToReady.WithLabelValues(kind).Observe(took.Seconds())
}

// SetReady records whether an object is ready.
func (m *Metrics) SetReady(kind, namespace, name string, ready bool) {
	value := 0.0
	if ready {
		value = 1
	}
	m.ready.WithLabelValues(kind, namespace, name).Set(value)
}

// SetExpiries records when the operator's token for a control plane and the license of the control
// plane expire. Nil means unknown.
func (m *Metrics) SetExpiries(namespace, name string, token, license *metav1.Time) {
	for gauge, at := range map[*prometheus.GaugeVec]*metav1.Time{m.tokenExpiry: token, m.licenseExpiry: license} {
		if at == nil {
			gauge.DeleteLabelValues(namespace, name)
			continue
		}
		gauge.WithLabelValues(namespace, name).Set(float64(at.Unix()))
	}
}

// Forget deletes the series of an object that no longer exists.
func (m *Metrics) Forget(kind, namespace, name string) {
	m.ready.DeleteLabelValues(kind, namespace, name)
	switch kind {
	case "CoderControlPlane":
		m.SetExpiries(namespace, name, nil, nil)
	case "CoderBackupSchedule":
		m.SetBackup(namespace, name, BackupMetrics{})
	}
}
