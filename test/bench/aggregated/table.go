package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// row is one line of the table.
type row struct{ measure, yardstick, ours, ratio, wanted string }

// table collects the figures.
type table struct{ rows []row }

func (t *table) add(r row) {
	for _, cell := range []*string{&r.yardstick, &r.ours, &r.ratio, &r.wanted} {
		if *cell == "" {
			*cell = "-"
		}
	}
	t.rows = append(t.rows, r)
}

// compare adds a row with a yardstick. If most is not 0, it is the maximum of the wanted ratio.
func (t *table) compare(measure string, yardstick, ours time.Duration, most float64) {
	r := row{measure: measure, yardstick: show(yardstick), ours: show(ours), ratio: fmt.Sprintf("%.2f", ours.Seconds()/yardstick.Seconds())}
	if most > 0 {
		r.wanted = fmt.Sprintf("at most %.1f times", most)
	}
	t.add(r)
}

func (t *table) print(out io.Writer) {
	load, _ := os.ReadFile("/proc/loadavg")
	_, _ = fmt.Fprintf(out, "%-66s %14s %14s %6s  %s\n", "measure", "yardstick", "ours", "ratio", "wanted")
	for _, r := range t.rows {
		_, _ = fmt.Fprintf(out, "%-66s %14s %14s %6s  %s\n", r.measure, r.yardstick, r.ours, r.ratio, r.wanted)
	}
	_, _ = fmt.Fprintf(out, "load of the machine at the end: %s\n", strings.TrimSpace(string(load)))
}

// show writes a duration with three digits.
func show(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= 100*time.Millisecond:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1e3)
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.2f ms", d.Seconds()*1e3)
}

// quantile returns the smallest value that is not less than this part of all values.
func quantile(all []time.Duration, part float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, max(0, int(float64(len(sorted))*part+0.999999)-1))]
}

func median(all []time.Duration) time.Duration { return quantile(all, 0.5) }
