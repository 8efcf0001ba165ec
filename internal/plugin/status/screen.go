package status

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// mostFaults is the maximum number of faults on the screen. -o json shows all.
const mostFaults = 20

// screen writes a report for people.
type screen struct {
	out   io.Writer
	paint cli.Paint
	now   time.Time
	wide  bool
	// columns is the width of the terminal, or 0 if it is unknown.
	columns int
	report  *Report
}

func (r *run) draw(out io.Writer, report *Report) {
	s := screen{out: out, paint: r.Paint, now: r.Clock.Now(), wide: r.format == cli.Wide, columns: r.ScreenColumns, report: report}
	s.workloads("Control planes", report.ControlPlanes, "VERSION", func(w Workload) string { return w.Version })
	s.workloads("Provisioners", report.Provisioners, "OF", func(w Workload) string { return w.Of })
	s.workloads("Workspace proxies", report.WorkspaceProxies, "OF", func(w Workload) string { return w.Of })
	s.counts()
	s.problems()
	for _, what := range report.NotSeen {
		s.wrapped("", s.paint.Text(cli.Yellow, "Not looked at:"), cli.Clean(what))
	}
	if len(report.Problems)+len(report.NotSeen) == 0 {
		fmt.Fprintln(s.out, s.paint.Text(cli.Green, "Nothing is wrong."))
	}
}

func (s *screen) workloads(title string, all []Workload, column string, detail func(Workload) string) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(s.out, s.paint.Text(cli.Bold, title))
	table := &cli.Table{Columns: s.columns, Header: []string{"NAMESPACE", "NAME", "READY", "STATUS", "REPLICAS", column, "AGE"}}
	if s.wide {
		table.Header = append(table.Header, "URL")
	}
	for _, w := range all {
		colour := cli.Red
		switch {
		case w.State == coderv1alpha1.ReasonScaledToZero:
			colour = cli.Yellow
		case w.Ready == string(metav1.ConditionTrue):
			colour = cli.Green
		}
		row := []cli.Cell{
			cli.Text(w.Namespace), cli.Text(w.Name), cli.Text(w.Ready).In(colour), cli.Text(w.State).In(colour),
			cli.Text(fmt.Sprintf("%d/%d", w.ReadyPods, w.Pods)), cli.Text(detail(w)), cli.Text(cli.Ago(s.now, w.Created)),
		}
		if s.wide {
			row = append(row, cli.Text(w.URL))
		}
		table.Add(row...)
	}
	table.Write(s.out, s.paint)
	fmt.Fprintln(s.out)
}

func (s *screen) counts() {
	if s.report.planesSeen && len(s.report.ControlPlanes) == 0 && s.report.Templates.Total+s.report.Workspaces.Total == 0 {
		where := "on this cluster"
		if s.report.Namespace != "" {
			where = "in namespace " + s.report.Namespace + " (-A looks at all)"
		}
		fmt.Fprintf(s.out, "There is no control plane %s.\n\n", where)
		return
	}
	table := &cli.Table{}
	table.Add(cli.Text("Templates").In(cli.Bold), cli.Text(sum(s.report.Templates)))
	table.Add(cli.Text("Workspaces").In(cli.Bold), cli.Text(sum(s.report.Workspaces)))
	table.Write(s.out, s.paint)
	fmt.Fprintln(s.out)
}

// sum formats a count, for example "5: 3 running, 2 stopped", with the most frequent state first.
func sum(c Count) string {
	switch {
	case c.Unseen:
		return "not seen"
	case c.Total == 0:
		return "none"
	}
	states := slices.SortedFunc(maps.Keys(c.ByState), func(a, b string) int {
		if c.ByState[a] != c.ByState[b] {
			return c.ByState[b] - c.ByState[a]
		}
		return strings.Compare(a, b)
	})
	parts := make([]string, 0, len(states))
	for _, state := range states {
		parts = append(parts, fmt.Sprintf("%d %s", c.ByState[state], state))
	}
	return fmt.Sprintf("%d: %s", c.Total, strings.Join(parts, ", "))
}

func (s *screen) problems() {
	all := s.report.Problems
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(s.out, s.paint.Text(cli.Bold, fmt.Sprintf("Wrong (%d)", len(all))))
	found := faults(all)
	for _, f := range found[:min(len(found), mostFaults)] {
		s.fault(f)
	}
	if more := len(found) - mostFaults; more > 0 {
		fmt.Fprintf(s.out, "and %d more: -o json shows all\n", more)
	}
	fmt.Fprintln(s.out)
}

func (s *screen) fault(f fault) {
	since := ""
	if first := f.since(); first != nil {
		since = " for " + cli.Ago(s.now, *first)
	}
	fmt.Fprintf(s.out, "%s%s\n", s.paint.Text(cli.Red, cli.Clean(f.title())), since)
	s.wrapped("  ", "", cli.Clean(f.text()))
	if do := f[0].Do; do != "" {
		// Commands are not wrapped, so that they can be copied.
		fmt.Fprintf(s.out, "  %s %s\n", s.paint.Text(cli.Faint, "do:"), cli.Clean(do))
	}
}

// wrapped prints a text, wrapped to the width of the terminal and indented.
func (s *screen) wrapped(indent, label, text string) {
	if label != "" {
		label += " "
	}
	fmt.Fprintf(s.out, "%s%s%s\n", indent, label, cli.Wrap(text, s.columns, indent))
}
