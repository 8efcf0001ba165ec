package callers

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestManyChecksAskOnce(t *testing.T) {
	h := NewProbe(testClock(), time.Minute, time.Second, time.Second)
	var asked, started atomic.Int64
	release := make(chan struct{})
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			started.Add(1)
			if err := h.Check(t.Context(), func(context.Context) error {
				asked.Add(1)
				<-release
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	// Give all goroutines the opportunity to make a request.
	for turns := 0; turns < 1000 || started.Load() < 20; turns++ {
		runtime.Gosched()
	}
	close(release)
	group.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("20 checks at once asked %d times", n)
	}
}
