package polltest

import (
	"context"
	"errors"
	"testing"
	"time"
)

const (
	// The pause between two checks is a quarter of the elapsed time, within these limits.
	// So an early success is noticed soon, and a slow check is not repeated often.
	shortestPause, longestPause = time.Millisecond, 200 * time.Millisecond
	// notable is the duration from which a wait is logged.
	notable = time.Second
)

// Eventually calls check until it succeeds, and fails the test with the last error if it
// does not succeed within the limit. It calls check in the goroutine of the caller. The
// context that check may take ends with the limit.
func Eventually[F func() error | func(context.Context) error | func() bool](t testing.TB, what string, check F) {
	t.Helper()
	eventually(standard(), t, what, check)
}

func eventually[F func() error | func(context.Context) error | func() bool](l limit, t testing.TB, what string, check F) {
	t.Helper()
	start := time.Now()
	ctx, cancel := l.context(t)
	defer cancel()
	var last error
	for {
		err := try(ctx, check)
		if err == nil {
			break
		}
		// If the limit interrupted the check, its error does not show the cause: keep the
		// previous error.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		if ctx.Err() != nil {
			t.Fatalf("%s: %v: %v", what, context.Cause(ctx), last)
		}
		<-time.After(pause(time.Since(start)))
	}
	if took := time.Since(start); took >= notable {
		t.Logf("%s: after %s", what, round(took))
	}
}

var errNotYet = errors.New("the condition is false")

func try(ctx context.Context, check any) error {
	switch check := check.(type) {
	case func(context.Context) error:
		return check(ctx)
	case func() error:
		return check()
	}
	if !check.(func() bool)() {
		return errNotYet
	}
	return nil
}

func pause(passed time.Duration) time.Duration {
	return min(max(passed/4, shortestPause), longestPause)
}
