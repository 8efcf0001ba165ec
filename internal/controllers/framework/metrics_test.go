package framework

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
	"github.com/coder-k8s/coder-k8s/internal/tracing/tracingtest"
)

// registered contains metrics and the registry with which they are registered.
type registered struct {
	*Metrics
	t        *testing.T
	registry *prometheus.Registry
}

func newMetrics(t *testing.T) *registered {
	t.Helper()
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	return &registered{Metrics: m, t: t, registry: registry}
}

func (r *registered) timeToReady() (count uint64, sum float64) {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "coder_k8s_time_to_ready_seconds" {
			for _, metric := range family.GetMetric() {
				count += metric.GetHistogram().GetSampleCount()
				sum += metric.GetHistogram().GetSampleSum()
			}
		}
	}
	return count, sum
}

// series returns the values of a gauge.
func (r *registered) series(name string) []float64 {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	var all []float64
	for _, family := range families {
		if family.GetName() == name {
			for _, metric := range family.GetMetric() {
				all = append(all, metric.GetGauge().GetValue())
			}
		}
	}
	return all
}

func planeWorkload(cp *coderv1alpha1.CoderControlPlane) resources.Workload {
	return resources.ControlPlane(cp, resources.Cluster{})
}

// A pass is a trace, its steps are spans of the trace, and a failure is recorded in the span.
func TestAPassIsATrace(t *testing.T) {
	collector := tracingtest.New(t)
	provider := collector.Provider(t)
	broken := errors.New("no database")
	list := []Step{
		{Name: "service", Run: func(context.Context) error { return nil }},
		{Name: "coder", Run: func(ctx context.Context) error {
			_, span := tracing.Start(ctx, "Coder GET")
			span.End()
			return broken
		}},
		{Name: "pods", Run: func(context.Context) error { return ensure.Waits("PodsStarting", 0, "soon") }},
	}
	var trace string
	kit := &Toolkit{Options: Options{Tracing: provider}}
	pass := kit.Traced("CoderControlPlane", reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		_, span := tracing.Start(ctx, "look")
		trace = span.SpanContext().TraceID().String()
		span.End()
		p := &Pass{}
		p.Run(ctx, list)
		return reconcile.Result{}, p.Outcome.Err
	}))
	request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "team-a", Name: "coder"}}
	if _, err := pass.Reconcile(t.Context(), request); !errors.Is(err, broken) {
		t.Errorf("the error is lost: %v", err)
	}
	const first = "Reconcile CoderControlPlane"
	tree := collector.Trace(t, provider, trace, first)
	if diff := cmp.Diff([]string{first, "coder", "Coder GET"}, tree.Path("Coder")); diff != "" {
		t.Error(diff)
	}
	for name, failed := range map[string]bool{first: true, "service": false, "coder": true, "pods": false} {
		if span, ok := tree.Find(name); !ok || span.Failed != failed {
			t.Errorf("%s: %+v, want failed %v", name, span, failed)
		}
	}
	if span, _ := tree.Find("pods"); span.Attributes["reason"] != "PodsStarting" {
		t.Errorf("%+v", span)
	}
	if span, _ := tree.Find(first); span.Attributes["k8s.namespace.name"] != "team-a" || span.Attributes["k8s.object.name"] != "coder" {
		t.Errorf("%+v", span)
	}
}

// Without tracing the result of a pass is the same, and the request ID of the requests to Coder is
// the reconcile ID.
func TestAPassWithoutTracing(t *testing.T) {
	var id string
	pass := new(Toolkit).Traced("", reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		id = tracing.RequestID(ctx)
		return reconcile.Result{RequeueAfter: 7}, nil
	}))
	result, err := pass.Reconcile(t.Context(), reconcile.Request{})
	if err != nil || result.RequeueAfter != 7 || id != "" {
		t.Errorf("%v, %v, id %q", result, err, id)
	}
}
