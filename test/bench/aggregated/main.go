// Command aggregated measures the aggregated API with a real Coder with many
// workspaces, on a real cluster. It prints each figure with its reference: Coder's
// own pages, or custom resources of equal size in the same run.
// test/bench/aggregated.sh starts the cluster, installs the operator and a Coder
// with one workspace, and calls it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

// options are the options of the command line.
type options struct {
	kubeconfig, database, cgroup, namespace, coder, account string
	// workspace is the one that was built by Coder; the others are copies of it.
	workspace string
	// phases are the phases to run. Empty means all.
	phases string
	count  int
	rest   time.Duration
	limit  time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig of the cluster")
	flag.StringVar(&o.database, "database", "", "address of Coder's database")
	flag.StringVar(&o.cgroup, "cgroup", "", "part of the name of the cgroups of the cluster's pods")
	flag.StringVar(&o.namespace, "namespace", "coder", "namespace of the control plane")
	flag.StringVar(&o.coder, "coder", "", "address of Coder")
	flag.StringVar(&o.account, "account-token-file", "", "file with the token of a ServiceAccount that may read metrics and workspaces")
	flag.StringVar(&o.workspace, "workspace", "coder.admin.hello", "name of the workspace that there is")
	flag.StringVar(&o.phases, "phases", "", "the phases to run, with commas between them (all when empty)")
	flag.IntVar(&o.count, "count", 10_000, "how many workspaces to add")
	flag.DurationVar(&o.rest, "rest", time.Minute, "how long to look at the operator at rest")
	flag.DurationVar(&o.limit, "limit", 40*time.Minute, "when to give up")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// bench is the shared state of the phases.
type bench struct {
	options
	kube  *kube
	table *table
	// small is the memory with a tenth of the workspaces.
	small memory
	began time.Time
}

func run(ctx context.Context, o options) error {
	kube, err := newKube(ctx, o)
	if err != nil {
		return err
	}
	b := &bench{options: o, kube: kube, table: &table{}, began: time.Now()}
	// Print the results also if a later phase fails.
	defer b.table.print(os.Stdout)
	for _, phase := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"one", b.withOne}, {"tenth", b.withTenth}, {"fill", b.fill}, {"sync", b.firstSync},
		{"reads", b.reads}, {"mixed", b.mixed}, {"fanout", b.fanOut}, {"builds", b.builds}, {"after", b.afterwards}, {"rest", b.atRest},
	} {
		if b.phases != "" && !strings.Contains(","+b.phases+",", ","+phase.name+",") {
			continue
		}
		b.say("%s", phase.name)
		if err := phase.run(ctx); err != nil {
			return fmt.Errorf("phase %s: %w", phase.name, err)
		}
	}
	return nil
}

// say prints the progress of the run.
func (b *bench) say(format string, args ...any) {
	load, _ := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(load))
	if len(fields) == 0 {
		fields = []string{"?"}
	}
	fmt.Fprintf(os.Stderr, "[%5.1f s, load %s] %s\n", time.Since(b.began).Seconds(), fields[0], fmt.Sprintf(format, args...))
}

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

// compare adds a row with a yardstick. If most is not 0, it is the target for the
// ratio.
func (t *table) compare(measure string, yardstick, ours time.Duration, most float64) {
	r := row{measure: measure, yardstick: show(yardstick), ours: show(ours), ratio: fmt.Sprintf("%.2f", ours.Seconds()/yardstick.Seconds())}
	if most > 0 {
		r.wanted = fmt.Sprintf("at most %.1f times", most)
	}
	t.add(r)
}

// memory adds the resident memory, and the part of it that is mapped from the program's file.
func (t *table) memory(measure string, m memory, wanted string) {
	t.add(row{measure: measure, ours: fmt.Sprintf("%.0f MB", m.resident/1e6), wanted: wanted})
	t.add(row{measure: "  of that, the program's file", ours: fmt.Sprintf("%.0f MB", m.file/1e6)})
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

// quantile returns the smallest duration that at least this fraction of all does
// not exceed.
func quantile(all []time.Duration, part float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, max(0, int(float64(len(sorted))*part+0.999999)-1))]
}

func median(all []time.Duration) time.Duration { return quantile(all, 0.5) }
