package polltest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// recorder is a testing.TB that records a failure.
type recorder struct {
	testing.TB
	logged, failed string
	end            time.Time
}

func (*recorder) Helper() {}

func (r *recorder) Logf(format string, args ...any) { r.logged += fmt.Sprintf(format, args...) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Deadline() (time.Time, bool) { return r.end, !r.end.IsZero() }

// run calls do as a test, and returns how long it took.
func (r *recorder) run(do func()) time.Duration {
	start := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	<-done
	return time.Since(start)
}

// loads returns a limit for a machine whose load changes each time that it is read.
func loads(idle time.Duration, cores int, averages ...string) limit {
	return limit{idle: idle, cores: cores, loadavg: func() string {
		now := averages[0]
		if len(averages) > 1 {
			averages = averages[1:]
		}
		return now + " 0.00 0.00 1/100 1000\n"
	}}
}

func TestEventuallyWaits(t *testing.T) {
	for _, when := range []time.Duration{0, 2 * time.Millisecond, time.Second, 50 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			r, calls, start := &recorder{}, 0, time.Now()
			took := r.run(func() {
				eventually(loads(time.Minute, 2, "0.10"), r, "the light is on", func() bool {
					calls++
					return time.Since(start) >= when
				})
			})
			if r.failed != "" || took > when+when/4+longestPause {
				t.Errorf("after %s: took %s, %s", when, took, r.failed)
			}
			if most := 25 + int(when/longestPause); calls > most {
				t.Errorf("after %s: %d calls, want %d at most", when, calls, most)
			}
			if (r.logged != "") != (when >= time.Second) {
				t.Errorf("after %s: logged %q", when, r.logged)
			}
		})
	}
}

func TestEventuallyFails(t *testing.T) {
	for name, test := range map[string]struct {
		limit limit
		end   time.Duration // Of the test binary.
		want  time.Duration
		says  string
	}{
		"idle":                  {limit: loads(time.Minute, 2, "0.10"), want: time.Minute, says: "the limit is 1m0s for a load of 1.0 per core"},
		"busy":                  {limit: loads(time.Minute, 2, "4.00"), want: 2 * time.Minute, says: "the limit is 2m0s for a load of 2.0 per core"},
		"very busy":             {limit: loads(time.Minute, 2, "400.00"), want: 5 * time.Minute, says: "the limit is 5m0s"},
		"without a load":        {limit: loads(time.Minute, 2, ""), want: time.Minute, says: "the limit is 1m0s"},
		"busy after some time":  {limit: loads(time.Minute, 2, "1.00", "3.00"), want: 90 * time.Second, says: "the limit is 1m30s"},
		"busier and busier":     {limit: loads(time.Minute, 1, "1.00", "2.00", "3.00", "3.00"), want: 3 * time.Minute, says: "the limit is 3m0s"},
		"calm after some time":  {limit: loads(time.Minute, 2, "4.00", "1.00"), want: 2 * time.Minute, says: "timeout after 2m0"},
		"deadline of the tests": {limit: loads(time.Minute, 2, "1.00"), end: 40 * time.Second, want: 36 * time.Second, says: "timeout after 36"},
		"distant deadline":      {limit: loads(time.Hour, 2, "1.00"), end: 10 * time.Minute, want: 10*time.Minute - reserve, says: "timeout after 9m50"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &recorder{}
				if test.end > 0 {
					r.end = time.Now().Add(test.end)
				}
				took := r.run(func() {
					eventually(test.limit, r, "the light is on", func() error { return errors.New("it is off") })
				})
				if took < test.want || took > test.want+longestPause {
					t.Errorf("took %s, want %s", took, test.want)
				}
				for _, part := range []string{"the light is on: timeout after ", test.says, ": it is off", variable} {
					if !strings.Contains(r.failed, part) {
						t.Errorf("the message lacks %q: %s", part, r.failed)
					}
				}
			})
		})
	}
}

func TestACheckThatHangsIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, calls := &recorder{}, 0
		took := r.run(func() {
			eventually(loads(time.Minute, 2, "1.00"), r, "the light is on", func(ctx context.Context) error {
				if calls++; calls == 1 {
					return errors.New("it is off")
				}
				<-ctx.Done()
				return ctx.Err()
			})
		})
		if took != time.Minute || calls != 2 || !strings.HasSuffix(r.failed, ": it is off") {
			t.Errorf("took %s and %d calls: %s", took, calls, r.failed)
		}
	})
}

func TestContextEndsWithTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := loads(time.Minute, 2, "1.00", "4.00").context(&recorder{})
		defer cancel()
		<-ctx.Done()
		if took := time.Since(start); took != 2*time.Minute {
			t.Errorf("it ended after %s", took)
		}
	})
}

func TestContextIsUsableInCleanup(t *testing.T) {
	t.Cleanup(func() {
		ctx := Context(t)
		if err := ctx.Err(); err != nil {
			t.Error(err)
		}
		t.Cleanup(func() {
			if err := ctx.Err(); err != nil {
				t.Error(err)
			}
		})
	})
}

func TestParseTimeout(t *testing.T) {
	for value, want := range map[string]time.Duration{"": defaultTimeout, "5m": 5 * time.Minute, "90s": 90 * time.Second} {
		if got, err := parseTimeout(value); got != want || err != nil {
			t.Errorf("%q is %s, %v, want %s", value, got, err, want)
		}
	}
	for _, value := range []string{"0", "-1m", "5", "soon"} {
		if got, err := parseTimeout(value); err == nil || !strings.Contains(err.Error(), variable) {
			t.Errorf("%q is %s, %v", value, got, err)
		}
	}
}
