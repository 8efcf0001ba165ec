package callers

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func newTestCache(size int) (*TTLCache[string], *clocktesting.FakePassiveClock) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	return NewTTLCache[string](size, time.Minute, clk), clk
}

func TestAnAnswerCountsForItsTime(t *testing.T) {
	cache, clk := newTestCache(10)
	asked := 0
	ask := func(context.Context) (string, time.Duration, error) {
		asked++
		return "yes", 10 * time.Second, nil
	}
	for _, step := range []struct {
		wait  time.Duration
		asked int
	}{{0, 1}, {9 * time.Second, 1}, {2 * time.Second, 2}} {
		clk.SetTime(clk.Now().Add(step.wait))
		if answer, err := cache.Get(t.Context(), "key", ask); err != nil || answer != "yes" || asked != step.asked {
			t.Errorf("after another %s: %q, %v, asked %d times, want %d", step.wait, answer, err, asked, step.asked)
		}
	}
}

func TestWhatIsNotRemembered(t *testing.T) {
	failed := errors.New("failed")
	for name, tc := range map[string]struct {
		ttl time.Duration
		err error
	}{"an error": {time.Hour, failed}, "an answer for this once": {0, nil}, "one that counts no more": {-time.Second, nil}} {
		t.Run(name, func(t *testing.T) {
			cache, _ := newTestCache(10)
			asked := 0
			for range 2 {
				answer, err := cache.Get(t.Context(), "key", func(context.Context) (string, time.Duration, error) {
					asked++
					return "yes", tc.ttl, tc.err
				})
				if !errors.Is(err, tc.err) || (err == nil) != (answer == "yes") {
					t.Errorf("%q, %v", answer, err)
				}
			}
			if asked != 2 {
				t.Errorf("asked %d times, want 2", asked)
			}
		})
	}
}

func TestMemoryIsBounded(t *testing.T) {
	cache, _ := newTestCache(2)
	asked := 0
	for _, key := range []string{"a", "b", "c", "a"} {
		if _, err := cache.Get(t.Context(), key, func(context.Context) (string, time.Duration, error) {
			asked++
			return key, time.Hour, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if asked != 4 {
		t.Errorf("asked %d times, want 4: the first of three answers is still there", asked)
	}
}

func TestOneQuestionForAllWhoWait(t *testing.T) {
	cache, _ := newTestCache(10)
	var asked atomic.Int64
	asking, answer := make(chan struct{}, 100), make(chan struct{})
	ask := func(ctx context.Context) (string, time.Duration, error) {
		asked.Add(1)
		asking <- struct{}{}
		<-answer
		return "yes", time.Hour, ctx.Err()
	}
	// The first caller gives up before there is a result.
	first, hangUp := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := cache.Get(first, "key", ask)
		gone <- err
	}()
	<-asking
	var started atomic.Int64
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			started.Add(1)
			if got, err := cache.Get(t.Context(), "key", ask); err != nil || got != "yes" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	hangUp()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the one who hung up got %v", err)
	}
	// Give all goroutines the opportunity to make a request.
	for turns := 0; turns < 1000 || started.Load() < 20; turns++ {
		runtime.Gosched()
	}
	close(answer)
	group.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestAQuestionHasALimit(t *testing.T) {
	cache := NewTTLCache[string](1, time.Nanosecond, clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	_, err := cache.Get(t.Context(), "key", func(ctx context.Context) (string, time.Duration, error) {
		<-ctx.Done()
		return "", 0, ctx.Err()
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the question ended with %v", err)
	}
}
