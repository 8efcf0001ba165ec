package workload

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

func TestOptionalKindsAreNoticedAsTheyAppear(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
	served := make(chan map[schema.GroupVersionKind]bool, 1)
	served <- map[schema.GroupVersionKind]bool{}
	var indexed []string
	failures := 1
	o := newOptionalKinds(clk,
		func(kind schema.GroupVersionKind) (bool, error) {
			now := <-served
			served <- now
			return now[kind], nil
		},
		func(_ context.Context, obj client.Object) error {
			indexed = append(indexed, kindName(obj))
			return nil
		})
	appeared := make(chan schema.GroupVersionKind, 10)
	o.OnAppear(func(_ context.Context, kind schema.GroupVersionKind) error {
		if failures > 0 {
			failures--
			return errors.New("no watch")
		}
		appeared <- kind
		return nil
	})
	done := make(chan error, 1)
	go func() { done <- o.Start(t.Context()) }()

	polltest.Eventually(t, "the first look", clk.HasWaiters)
	if o.Has(HTTPRouteKind()) || o.Has(ServiceMonitorKind()) {
		t.Fatal("a kind is there before the cluster serves it")
	}
	<-served
	served <- map[schema.GroupVersionKind]bool{HTTPRouteKind(): true}
	// The first attempt fails. The second starts without any trigger.
	polltest.Eventually(t, "the HTTPRoute", func() bool {
		clk.Step(optionalInterval)
		return o.Has(HTTPRouteKind()) && len(appeared) == 1
	})
	if kind := <-appeared; kind != HTTPRouteKind() || o.Has(ServiceMonitorKind()) {
		t.Errorf("%v appeared", kind)
	}
	<-served
	served <- map[schema.GroupVersionKind]bool{HTTPRouteKind(): true, ServiceMonitorKind(): true}
	polltest.Eventually(t, "the end, when all are there", func() bool {
		clk.Step(optionalInterval)
		select {
		case err := <-done:
			return err == nil
		default:
			return false
		}
	})
	slices.Sort(indexed)
	if want := []string{"HTTPRoute", "ServiceMonitor"}; !slices.Equal(indexed, want) {
		t.Errorf("indexed %q, want each once: %q", indexed, want)
	}
}

func kindName(obj client.Object) string {
	for kind, child := range OptionalChildren() {
		if reflect.TypeOf(child) == reflect.TypeOf(obj) {
			return kind.Kind
		}
	}
	return "unknown"
}
