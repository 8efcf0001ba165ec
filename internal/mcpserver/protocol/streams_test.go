package protocol

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func testMetrics(t testing.TB) *Metrics {
	t.Helper()
	metrics, err := NewMetrics(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return metrics
}

func TestStreamsAreForgottenWhenTheyEnd(t *testing.T) {
	s := newStreams(1, testMetrics(t))
	stream, end, err := s.begin(t.Context(), "alice", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.begin(t.Context(), "alice", time.Minute); err == nil {
		t.Error("a second one began")
	}
	end()
	end()
	if stream.Err() == nil {
		t.Error("its context has not ended")
	}
	if counted := testutil.ToFloat64(s.metrics.Streams); s.users.Total() != 0 || counted != 0 {
		t.Errorf("%d open and %g counted are left", s.users.Total(), counted)
	}
}

func TestNoStreamBeginsAfterTheEnd(t *testing.T) {
	s := newStreams(0, testMetrics(t))
	s.close()
	if _, err := s.take("alice"); !errors.Is(err, errEnding) {
		t.Errorf("taking one gives %v", err)
	}
	if _, _, err := s.begin(t.Context(), "alice", time.Minute); !errors.Is(err, errEnding) {
		t.Errorf("beginning one gives %v", err)
	}
}

// TestAStreamThatBeginsWhileAllEnd closes the streams between the two steps of begin.
func TestAStreamThatBeginsWhileAllEnd(t *testing.T) {
	s := newStreams(0, testMetrics(t))
	s.metrics.Streams = closing{s.metrics.Streams, s}
	stream, end, err := s.begin(t.Context(), "alice", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	if receive(t, "the end of the stream", stream.Done()); !errors.Is(stream.Err(), context.Canceled) {
		t.Errorf("the context of the stream has %v", stream.Err())
	}
}

// closing is a gauge that closes the streams when one is counted.
type closing struct {
	prometheus.Gauge
	streams *streams
}

func (c closing) Inc() { c.streams.close() }

func TestWorkIsCancelledAtTheEnd(t *testing.T) {
	s := newStopper()
	first, cancelFirst := context.WithCancel(t.Context())
	defer cancelFirst()
	s.onStop(cancelFirst)
	done, cancelDone := context.WithCancel(t.Context())
	defer cancelDone()
	if forget := s.onStop(cancelDone); !forget() {
		t.Error("work that is done is not forgotten")
	}
	s.stop()
	receive(t, "the end of the work", first.Done())
	late, cancelLate := context.WithCancel(t.Context())
	defer cancelLate()
	s.onStop(cancelLate)
	receive(t, "the end of work that began later", late.Done())
	if done.Err() != nil {
		t.Error("work that was done is cancelled")
	}
}

func TestNoRequestBeginsAfterTheEnd(t *testing.T) {
	var r running
	if !r.begin() {
		t.Fatal("a request cannot begin")
	}
	r.refuse()
	if r.begin() {
		t.Error("a request began")
	}
	r.requests.Done()
	r.requests.Wait()
}
