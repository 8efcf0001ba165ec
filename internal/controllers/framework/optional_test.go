package framework

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

func TestOptionalKindsAreNoticedAsTheyAppear(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Unix(1000, 0))
	served := make(chan map[schema.GroupVersionKind]bool, 1)
	served <- map[schema.GroupVersionKind]bool{}
	failures := 1
	o := newOptionalKinds(clk,
		func(kind schema.GroupVersionKind) (bool, error) {
			now := <-served
			served <- now
			return now[kind], nil
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
}
