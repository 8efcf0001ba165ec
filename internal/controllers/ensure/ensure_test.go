package ensure

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// TestStopped finds the Stop in any error chain, and finds nothing else.
func TestStopped(t *testing.T) {
	waits := Waits("Busy", time.Minute, "waits for %q", "a")
	fails := Fails("Wrong", time.Hour, "correct %q", "b")
	for name, c := range map[string]struct {
		err  error
		want *Stop
	}{
		"no error":    {nil, nil},
		"another":     {errors.New("conflict"), nil},
		"waiting":     {waits, &Stop{State: Waiting, Reason: "Busy", After: time.Minute, Message: `waits for "a"`}},
		"failed":      {fails, &Stop{State: Failed, Reason: "Wrong", After: time.Hour, Message: `correct "b"`}},
		"unavailable": {Unavailable("Gone", 0, "no %s", "c"), &Stop{State: Failed, Reason: "Gone", Message: "no c", Unavailable: true}},
		"wrapped":     {fmt.Errorf("in a pass: %w", fails), fails},
		"with more":   {errors.Join(waits, nil), waits},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Stopped(c.err)); diff != "" || IsUnavailable(c.err) != (name == "unavailable") {
				t.Errorf("unavailable %t (-want +got):\n%s", IsUnavailable(c.err), diff)
			}
			want := Result{State: "Before", Message: "before", RequeueAfter: time.Second}
			got := want
			if c.want != nil {
				want = Result{State: c.want.State, Reason: c.want.Reason, Message: c.want.Message, RequeueAfter: c.want.After}
			}
			other := got.Finish(c.err)
			if diff := cmp.Diff(want, got); diff != "" || (other == nil) != (c.want != nil || c.err == nil) {
				t.Errorf("the end leaves %v (-want +got):\n%s", other, diff)
			}
		})
	}
	if got := fails.Error(); got != `correct "b"` {
		t.Errorf("says %q", got)
	}
}

func TestSoonerIgnoresNoWait(t *testing.T) {
	for _, c := range []struct{ a, b, want time.Duration }{
		{0, 0, 0}, {0, 5, 5}, {5, 0, 5}, {5, 3, 3}, {3, 5, 3},
	} {
		if got := Sooner(c.a, c.b); got != c.want {
			t.Errorf("Sooner(%d, %d) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestEvents(t *testing.T) {
	var events Events
	events.Normal("Made", "made it")
	events.Warning("Left", "left it")
	want := Events{{Type: "Normal", Reason: "Made", Message: "made it"}, {Type: "Warning", Reason: "Left", Message: "left it"}}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAnswers checks what the users' tests do not show: entries that a package leaves out, and the
// time that Coder sends.
func TestAnswers(t *testing.T) {
	answers := Answers{
		RateLimited: Fewer("Busy", 15*time.Second, 5*time.Second),
		Forbidden:   Answer{Reason: "Forbidden", After: time.Minute, Format: "no (%s)"},
		Other:       Answer{Reason: "Other"},
	}
	status := func(code int, after time.Duration) error {
		return fmt.Errorf("in a pass: %w", &coderd.Error{Op: "asking", Message: "no", StatusCode: code, RetryAfter: after})
	}
	text := func(code int) string { return fmt.Sprintf("in a pass: asking: no (HTTP %d)", code) }
	for name, c := range map[string]struct {
		err  error
		want *Stop
	}{
		"forbidden":            {status(403, 0), &Stop{State: Failed, Reason: "Forbidden", After: time.Minute, Message: "no (" + text(403) + ")"}},
		"unreachable, missing": {status(500, 0), &Stop{State: Failed, Reason: "Other", Message: text(500)}},
		"without a time":       {status(429, 0), &Stop{State: Waiting, Reason: "Busy", After: 15 * time.Second, Message: "Coder's rate limit is exceeded: " + text(429)}},
		"a short time":         {status(429, 1), &Stop{State: Waiting, Reason: "Busy", After: 5 * time.Second, Message: "Coder's rate limit is exceeded: " + text(429)}},
		"a long time":          {status(429, time.Hour), &Stop{State: Waiting, Reason: "Busy", After: time.Hour, Message: "Coder's rate limit is exceeded: " + text(429)}},
	} {
		if diff := cmp.Diff(c.want, Stopped(answers.Stop(c.err))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	conflict := errors.New("conflict")
	if got := answers.Stop(conflict); !errors.Is(got, conflict) || answers.Stop(nil) != nil {
		t.Errorf("not of Coder: %v", got)
	}
}

func TestCache(t *testing.T) {
	var c Cache[string, int]
	now, about := time.Now(), DigestOf("a", "b")
	if _, ok := c.Get("one", about, now); ok {
		t.Error("it is not empty")
	}
	c.Put("one", Entry[int]{Value: 7, Digest: about, At: now, Until: now.Add(time.Minute)})
	for name, got := range map[string]bool{
		"the same":       has(&c, "one", about, now.Add(time.Minute-1)),
		"too late":       !has(&c, "one", about, now.Add(time.Minute)),
		"another digest": !has(&c, "one", DigestOf("ab"), now),
		"another object": !has(&c, "two", about, now),
	} {
		if !got {
			t.Error(name)
		}
	}
	c.Forget("one")
	if has(&c, "one", about, now) {
		t.Error("it is not forgotten")
	}
}

func has(c *Cache[string, int], object string, about Digest, at time.Time) bool {
	e, ok := c.Get(object, about, at)
	return ok && e.Value == 7
}
