package impersonation

import (
	"context"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
	"github.com/coder-k8s/coder-k8s/internal/kube/collector"
)

// Metrics counts the matches of identity rules. A nil one counts nothing.
type Metrics struct{ matches *prometheus.CounterVec }

// NewMetrics returns the metrics and registers them.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{matches: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "coder_k8s_identity_matches_total",
		Help: "Requests that change an object in Coder, open a session in a workspace or read a log, by the rule of spec.identity.rules that matched the caller: its index, or none.",
	}, []string{"namespace", "name", "rule"})}
	return m, collector.Register(registerer, &m.matches)
}

// count counts a request in the metrics. The rule is its index, or -1 if none matched.
func (a *Actors) count(controlPlane types.NamespacedName, rule int) {
	if a.config.Metrics == nil {
		return
	}
	name := "none"
	if rule >= 0 {
		name = strconv.Itoa(rule)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counted.Insert(controlPlane)
	a.config.Metrics.matches.WithLabelValues(controlPlane.Namespace, controlPlane.Name, name).Inc()
}

// Run removes the metrics of control planes that no longer exist, until the context is done.
func (a *Actors) Run(ctx context.Context) error {
	for {
		changed := a.config.Board.Changed()
		if all, known := a.config.Board.All(); known {
			a.mu.Lock()
			for controlPlane := range a.counted {
				if slices.ContainsFunc(all, func(p syncstatus.Status) bool { return p.ControlPlane == controlPlane }) {
					continue
				}
				a.counted.Delete(controlPlane)
				a.config.Metrics.matches.DeletePartialMatch(prometheus.Labels{"namespace": controlPlane.Namespace, "name": controlPlane.Name})
			}
			a.mu.Unlock()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}
