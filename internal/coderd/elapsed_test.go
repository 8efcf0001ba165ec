package coderd_test

import (
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

func TestElapsed(t *testing.T) {
	now := time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		since time.Time
		want  bool
	}{
		"now":               {now, false},
		"just before":       {now.Add(-59 * time.Second), false},
		"at the end":        {now.Add(-time.Minute), true},
		"a little ahead":    {now.Add(30 * time.Second), false},
		"ten minutes ahead": {now.Add(10 * time.Minute), true},
		"ten years ahead":   {now.AddDate(10, 0, 0), true},
		"ten years behind":  {now.AddDate(-10, 0, 0), true},
		"zero":              {time.Time{}, true},
		"year 0":            {time.Date(0, time.January, 1, 0, 0, 0, 0, time.UTC), true},
		"year 9999":         {time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC), true},
	} {
		if got := coderd.Elapsed(now, c.since, time.Minute); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
