package protocol

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestStreamsAreForgottenWhenTheyEnd(t *testing.T) {
	metrics := newFakeMetrics()
	s := newStreams(1, metrics)
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
	if len(s.begun.all) != 0 || s.users.Of("alice") != 0 || s.count() != 0 || metrics.streams != 0 {
		t.Errorf("%d to cancel, %d of the user, %d open and %d counted are left", len(s.begun.all), s.users.Of("alice"), s.count(), metrics.streams)
	}
}

func TestNoStreamBeginsAfterTheEnd(t *testing.T) {
	s := newStreams(0, noMetrics{})
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
	s := newStreams(0, noMetrics{})
	s.metrics = closing{s}
	stream, end, err := s.begin(t.Context(), "alice", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	if !errors.Is(stream.Err(), context.Canceled) {
		t.Errorf("the context of the stream has %v", stream.Err())
	}
}

// closing is a Metrics that closes the streams when one is counted.
type closing struct{ *streams }

func (closing) CalledTool(string, string, time.Duration) {}
func (closing) AddSessions(int)                          {}
func (c closing) AddStreams(int)                         { c.closed = true; c.begun.cancel() }

func TestWorkIsCancelledAtTheEnd(t *testing.T) {
	var r running
	first, cancelFirst := context.WithCancel(t.Context())
	defer cancelFirst()
	endFirst := r.work.add(cancelFirst)
	_, cancelDone := context.WithCancel(t.Context())
	defer cancelDone()
	r.work.add(cancelDone)()
	if len(r.work.all) != 1 {
		t.Errorf("%d works are known", len(r.work.all))
	}
	r.work.cancel()
	if first.Err() == nil {
		t.Error("the work goes on")
	}
	endFirst()
	late, cancelLate := context.WithCancel(t.Context())
	defer cancelLate()
	r.work.add(cancelLate)()
	if late.Err() == nil {
		t.Error("work that began later goes on")
	}
}

func TestNoRequestBeginsAfterTheEnd(t *testing.T) {
	var r running
	end, ok := r.begin()
	if !ok {
		t.Fatal("a request cannot begin")
	}
	r.refuse()
	if _, ok := r.begin(); ok {
		t.Error("a request began")
	}
	end()
	r.wait()
}
