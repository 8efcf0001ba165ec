package replication

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

func TestRevisionsRise(t *testing.T) {
	t.Parallel()
	now := time.UnixMicro(1_700_000_000_000_000)
	clock := clocktesting.NewFakePassiveClock(now)
	r := &revisions{clock: clock}
	r.reserve(micros(now) + 1000)
	steps := []struct {
		name string
		set  time.Time
		head uint64
		want uint64
	}{
		{"the clock's", now, 0, micros(now)},
		{"counts where the clock stands still", now, 0, micros(now) + 1},
		{"follows the clock", now.Add(10 * time.Microsecond), 0, micros(now) + 10},
		{"is above the head", now, micros(now) + 20, micros(now) + 21},
		{"does not go back", now.Add(-time.Hour), 0, micros(now) + 22},
		{"stays within the reserve", now.Add(time.Hour), 0, micros(now) + 1000},
	}
	for _, step := range steps {
		clock.SetTime(step.set)
		if got := r.Next(step.head); got != step.want {
			t.Errorf("%s: %d, want %d", step.name, got, step.want)
		}
	}
}

func TestMandate(t *testing.T) {
	t.Parallel()
	now := time.UnixMicro(1_700_000_000_000_000)
	clock := clocktesting.NewFakePassiveClock(now)
	numbers := &revisions{clock: clock}
	m := &mandate{numbers: numbers, reserve: time.Second, validity: time.Hour, heads: func() uint64 { return 7 }}
	if err := m.allows(0, 1); err == nil {
		t.Error("without the Lease something may be decided")
	}
	ahead := micros(now.Add(time.Minute))
	if !m.granted(m.claim(map[string]string{annotationCeiling: "1700000060000000"}, false)) {
		t.Error("the Lease is not acquired")
	}
	term, held := m.holds()
	if !held || term != ahead {
		t.Errorf("the term is %d (%t), want the noted ceiling %d", term, held, ahead)
	}
	if next := numbers.Next(0); next <= ahead {
		t.Errorf("the first revision %d is not above what was reserved, %d", next, ahead)
	}
	second := uint64(time.Second.Microseconds())
	if err := m.allows(term, ahead+second); err != nil {
		t.Errorf("within the reserve: %v", err)
	}
	if err := m.allows(term, ahead+second+1); err == nil {
		t.Error("a revision beyond the reserve may be decided")
	}
	if err := m.allows(term-1, ahead); err == nil {
		t.Error("an earlier term may decide")
	}
	release := m.claim(nil, true)
	if err := m.allows(term, ahead); err == nil {
		t.Error("after giving the Lease up something may be decided")
	}
	if release.ceiling != numbers.reached() {
		t.Errorf("the released Lease says %d, want what was given, %d", release.ceiling, numbers.reached())
	}
}

func TestAMandateRunsOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &mandate{
			numbers: &revisions{clock: clocktesting.NewFakePassiveClock(time.Now())}, reserve: time.Minute,
			validity: 3 * time.Second, heads: func() uint64 { return 0 },
		}
		claim := m.claim(nil, false)
		// The request took two seconds: it counts from its beginning.
		<-time.After(2 * time.Second)
		m.granted(claim)
		term, _ := m.holds()
		if err := m.allows(term, term); err != nil {
			t.Errorf("within the time: %v", err)
		}
		<-time.After(time.Second)
		if err := m.allows(term, term); err == nil {
			t.Error("after the time something may be decided")
		}
	})
}

func TestConfirmWaitsForARenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &mandate{
			numbers: &revisions{clock: clocktesting.NewFakePassiveClock(time.Now())}, reserve: time.Minute,
			validity: 3 * time.Second, heads: func() uint64 { return 0 },
		}
		m.granted(m.claim(nil, false))
		term, _ := m.holds()
		begin := time.Now()
		<-time.After(time.Millisecond)
		lost := time.Now()
		go func() {
			<-time.After(time.Second)
			m.granted(m.claim(nil, false))
		}()
		if err := m.confirm(term, lost); err != nil || time.Since(begin) < time.Second {
			t.Errorf("after %s: %v, want nil after the renewal", time.Since(begin), err)
		}
		if err := m.confirm(term, time.Now()); err == nil || time.Since(begin) < 3*time.Second {
			t.Errorf("after %s without a renewal: %v, want an error when the time is over", time.Since(begin), err)
		}
	})
}

func TestManyWhoAskShareOneQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked uint64
		f := &freshness{fetch: func() (map[string]uint64, error) {
			<-time.After(time.Second)
			asked++
			return map[string]uint64{things: asked}, nil
		}}
		var waiting sync.WaitGroup
		ask := func(want uint64) {
			waiting.Go(func() {
				heads, err := f.get(t.Context())
				if err != nil || heads[things] != want {
					t.Errorf("got %v, %v, want %d", heads, err, want)
				}
			})
		}
		ask(1)
		synctest.Wait()
		// The answer under way may be older than what these have seen.
		for range 50 {
			ask(2)
		}
		waiting.Wait()
		if asked != 2 {
			t.Errorf("the writer was asked %d times, want 2", asked)
		}
	})
}

func TestNothingIsLeftRunning(t *testing.T) {
	before := runtime.NumGoroutine()
	c := newCluster(t, quick())
	writer, one, two := c.trio(options{})
	one.mustWrite(t, "x", "1")
	writer.kill()
	writerOf(t, one, two)
	for _, n := range c.nodes {
		n.halt()
	}
	polltest.Eventually(t, "all goroutines have ended", func() bool {
		runtime.Gosched()
		return runtime.NumGoroutine() <= before
	})
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewMetrics(registry); err != nil {
		t.Errorf("registering twice: %v", err)
	}
	c := newCluster(t, patient())
	writer := c.start("a", options{metrics: metrics})
	follower := c.start("b", options{})
	polltest.Eventually(t, "both are there", func() bool { return writer.Ready() == nil && follower.Ready() == nil })
	if !writer.Writing() {
		writer, follower = follower, writer
		writer.halt()
		writer = follower
		writerOf(t, writer)
	}
	want := `# HELP coder_k8s_replication_takeovers_total How often this replica became the writer.
# TYPE coder_k8s_replication_takeovers_total counter
coder_k8s_replication_takeovers_total 1
# HELP coder_k8s_replication_writer 1 where this replica decides the changes, else 0.
# TYPE coder_k8s_replication_writer gauge
coder_k8s_replication_writer 1
`
	// It is the writer a moment before it counts that.
	polltest.Eventually(t, "the metrics tell who is the writer", func() bool {
		err := testutil.GatherAndCompare(registry, strings.NewReader(want),
			"coder_k8s_replication_takeovers_total", "coder_k8s_replication_writer")
		if err != nil {
			t.Log(err)
		}
		return err == nil
	})
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("names of metrics: %v, %v", problems, err)
	}
}

func TestConfigTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Identity: "No Good", Lease: time.Millisecond})
	for _, part := range []string{`"No Good"`, "namespace", "client", "board", "1ms"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error %v does not mention %s", err, part)
		}
	}
}

func TestSleepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if sleep(ctx, time.Hour) {
		t.Error("it slept on")
	}
}
