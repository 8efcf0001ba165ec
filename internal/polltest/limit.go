package polltest

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// variable is the environment variable that sets the limit on an idle machine.
	variable       = "CODER_K8S_TEST_TIMEOUT"
	defaultTimeout = 2 * time.Minute
	// maxLoad is the largest factor for the load of the machine.
	maxLoad = 5
	// reserve is the time before the deadline of the test binary in which a test still
	// reports its failure and cleans up.
	reserve = 10 * time.Second
)

// limit is the time that a test waits.
type limit struct {
	idle    time.Duration // The limit on an idle machine.
	cores   int
	loadavg func() string // The content of /proc/loadavg.
}

var standard = sync.OnceValue(func() limit {
	idle, err := parseTimeout(os.Getenv(variable))
	if err != nil {
		panic(err)
	}
	return limit{idle: idle, cores: runtime.NumCPU(), loadavg: func() string {
		content, _ := os.ReadFile("/proc/loadavg") // Other systems do not have it, and count as idle.
		return string(content)
	}}
})

func parseTimeout(value string) (time.Duration, error) {
	if value == "" {
		return defaultTimeout, nil
	}
	timeout, err := time.ParseDuration(value)
	if err != nil || timeout <= 0 {
		return 0, fmt.Errorf("%s is %q, want a positive duration such as 5m", variable, value)
	}
	return timeout, nil
}

// Timeout returns the current limit. Prefer Context, which extends the limit if the
// machine becomes busy.
func Timeout() time.Duration { return standard().current() }

// Context returns a context that ends when the limit is reached, or when the test and its
// cleanup functions have ended.
func Context(t testing.TB) context.Context {
	ctx, cancel := standard().context(t)
	t.Cleanup(cancel)
	return ctx
}

// current returns the limit under the current load.
func (l limit) current() time.Duration {
	return time.Duration(float64(l.idle) * l.load())
}

// load returns the load per core, between 1 and maxLoad.
func (l limit) load() float64 {
	first, _, _ := strings.Cut(l.loadavg(), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 1
	}
	return min(max(load/float64(l.cores), 1), maxLoad)
}

// context returns a context that ends when the limit is reached.
func (l limit) context(t testing.TB) (context.Context, context.CancelFunc) {
	// Not the test's context: it has ended when cleanup functions run, and they wait too.
	ctx, cancel := context.WithCancelCause(context.Background())
	start := time.Now()
	end, hasEnd := deadline(t)
	remaining := func() time.Duration {
		left := time.Until(start.Add(l.current()))
		if hasEnd {
			left = min(left, time.Until(end))
		}
		return left
	}
	// No goroutine: tests count goroutines while they wait.
	var mu sync.Mutex // The function of the timer uses the timer.
	var timer *time.Timer
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(remaining(), func() {
		mu.Lock()
		defer mu.Unlock()
		if left := remaining(); left > 0 {
			timer.Reset(left)
			return
		}
		cancel(fmt.Errorf("timeout after %s: the limit is %s for a load of %.1f per core (%s is %s); the test binary ends at its own deadline",
			round(time.Since(start)), round(l.current()), l.load(), variable, l.idle))
	})
	return ctx, func() {
		cancel(context.Canceled)
		mu.Lock()
		defer mu.Unlock()
		timer.Stop()
	}
}

// deadline returns the time at which a test stops waiting in any case, so that it fails
// with its own message and not with a panic of the whole test binary.
func deadline(t testing.TB) (time.Time, bool) {
	withDeadline, ok := t.(interface{ Deadline() (time.Time, bool) })
	if !ok {
		return time.Time{}, false
	}
	end, ok := withDeadline.Deadline()
	return end.Add(-min(reserve, time.Until(end)/10)), ok
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
