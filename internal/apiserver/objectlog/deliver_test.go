package objectlog

import (
	"context"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// TestPacer: a single event never waits, the eleventh of a burst does.
func TestPacer(t *testing.T) {
	fake := clocktesting.NewFakeClock(time.Now())
	p := &pacer{clock: fake}
	at := func(what string) {
		t.Helper()
		if !p.wait(t.Context()) || fake.HasWaiters() {
			t.Fatalf("%s waits", what)
		}
	}
	for range 3 {
		for range burst {
			at("an event of a burst that the cacher has room for")
		}
		fake.Step(breath)
	}
	for range burst {
		at("an event after a rest")
	}
	passed := make(chan bool)
	go func() { passed <- p.wait(t.Context()) }()
	polltest.Eventually(t, "the eleventh event waiting", fake.HasWaiters)
	fake.Step(breath)
	if !<-passed {
		t.Error("the eleventh event did not pass")
	}
	for range burst - 1 {
		at("an event after the wait")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if p.wait(ctx) {
		t.Error("an event passed though nobody wants it any more")
	}
}
