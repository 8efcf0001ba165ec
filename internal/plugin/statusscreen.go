package plugin

import (
	"cmp"
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

// statusScreen writes a report for people.
type statusScreen struct {
	*statusRun
	out    io.Writer
	report *statusReport
}

func (r *statusRun) draw(out io.Writer, report *statusReport) {
	s := statusScreen{r, out, report}
	s.workloads("Control planes", report.ControlPlanes, "VERSION")
	s.workloads("Provisioners", report.Provisioners, "CONTROL PLANE")
	s.workloads("Workspace proxies", report.WorkspaceProxies, "CONTROL PLANE")
	s.counts()
	s.problems()
	for _, what := range report.NotSeen {
		fmt.Fprintf(s.out, "%s %s\n", s.Paint.Text(cli.Yellow, "Not checked:"), cli.Wrap(cli.Clean(what), s.ScreenColumns, ""))
	}
	if len(report.Problems)+len(report.NotSeen) == 0 {
		fmt.Fprintln(s.out, s.Paint.Text(cli.Green, "No problems."))
	}
}

func (s *statusScreen) workloads(title string, all []statusWorkload, column string) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(s.out, s.Paint.Text(cli.Bold, title))
	table := &cli.Table{Columns: s.ScreenColumns, Header: []string{"NAMESPACE", "NAME", "READY", "STATUS", "REPLICAS", column, "AGE"}}
	if s.format == cli.Wide {
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
			cli.Text(fmt.Sprintf("%d/%d", w.ReadyPods, w.Pods)), versionCell(cmp.Or(w.Version, w.Of), w.VersionSupported), cli.Text(cli.Ago(s.Now(), w.Created)),
		}
		if s.format == cli.Wide {
			row = append(row, cli.Text(w.URL))
		}
		table.Add(row...)
	}
	table.Write(s.out, s.Paint)
	fmt.Fprintln(s.out)
}

func (s *statusScreen) counts() {
	if s.report.planesSeen && len(s.report.ControlPlanes) == 0 && s.report.Templates.Total+s.report.Workspaces.Total == 0 {
		fmt.Fprintln(s.out, noControlPlane(s.report.Namespace)+"\n")
		return
	}
	table := &cli.Table{}
	table.Add(cli.Text("Templates").In(cli.Bold), cli.Text(statusSum(s.report.Templates)))
	table.Add(cli.Text("Workspaces").In(cli.Bold), cli.Text(statusSum(s.report.Workspaces)))
	table.Write(s.out, s.Paint)
	fmt.Fprintln(s.out)
}

// noControlPlane reports that there is no control plane in a namespace, or on the cluster if it is empty.
func noControlPlane(namespace string) string {
	if namespace == "" {
		return "There is no control plane on this cluster."
	}
	return "There is no control plane in namespace " + namespace + " (-A shows all namespaces)."
}

// statusSum formats a count, for example "5: 3 running, 2 stopped", with the most frequent state first.
func statusSum(c statusCount) string {
	switch {
	case c.Unseen:
		return "unknown, because they could not be read"
	case c.Total == 0:
		return "none"
	}
	states := slices.SortedFunc(maps.Keys(c.ByState), func(a, b string) int {
		return cmp.Or(c.ByState[b]-c.ByState[a], strings.Compare(a, b))
	})
	parts := make([]string, 0, len(states))
	for _, state := range states {
		parts = append(parts, fmt.Sprintf("%d %s", c.ByState[state], state))
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return fmt.Sprintf("%d: %s", c.Total, strings.Join(parts, ", "))
}

func (s *statusScreen) problems() {
	all := s.report.Problems
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(s.out, s.Paint.Text(cli.Bold, fmt.Sprintf("Problems (%d)", len(all))))
	found := faults(all)
	for _, f := range found[:min(len(found), mostFaults)] {
		s.fault(f)
	}
	if more := len(found) - mostFaults; more > 0 {
		fmt.Fprintf(s.out, "and %d more: -o json shows all\n", more)
	}
	fmt.Fprintln(s.out)
}

func (s *statusScreen) fault(f fault) {
	since := ""
	if first := f.since(); first != nil {
		since = " for " + cli.Ago(s.Now(), *first)
	}
	fmt.Fprintf(s.out, "%s%s\n", s.Paint.Text(cli.Red, cli.Clean(f.title())), since)
	fmt.Fprintf(s.out, "  %s\n", cli.Wrap(cli.Clean(f.text()), s.ScreenColumns, "  "))
	if do := f[0].Do; do != "" {
		// Commands are not wrapped, so that they can be copied.
		fmt.Fprintf(s.out, "  %s %s\n", s.Paint.Text(cli.Faint, "do:"), cli.Clean(do))
	}
}

const (
	// mostAlone is the maximum number of different messages with the same reason that are shown
	// separately.
	mostAlone        = 3
	mostNamedInTitle = 3
)

// fault is a problem of one or more objects.
type fault []statusProblem

// faults groups the problems of objects of one kind by reason and message. If a reason has many
// messages, it groups by the reason only. The order is the order of the first problem in each
// group.
func faults(all []statusProblem) []fault {
	type cause struct{ kind, reason, what string }
	different := map[cause][]string{}
	for _, p := range all {
		if c := (cause{kind: p.Kind, reason: p.Reason}); !slices.Contains(different[c], p.What) {
			different[c] = append(different[c], p.What)
		}
	}
	var found []fault
	at := map[cause]int{}
	for _, p := range all {
		c := cause{kind: p.Kind, reason: p.Reason}
		if len(different[c]) <= mostAlone {
			c.what = p.What
		}
		i, known := at[c]
		if !known || p.Kind == "" {
			i = len(found)
			at[c], found = i, append(found, nil)
		}
		found[i] = append(found[i], p)
	}
	return found
}

// title returns the name of the object, or the number of objects with the first names.
func (f fault) title() string {
	if len(f) == 1 {
		return f[0].Object
	}
	names := firstNames(len(f), mostNamedInTitle, func(i int) string { return f[i].Namespace + "/" + f[i].Name })
	kind := f[0].Kind + "s"
	if stem, ok := strings.CutSuffix(f[0].Kind, "y"); ok {
		kind = stem + "ies"
	}
	return fmt.Sprintf("%d %s (%s)", len(f), kind, names)
}

// text returns the message. If the messages differ, it returns the first one.
func (f fault) text() string {
	if slices.ContainsFunc(f, func(p statusProblem) bool { return p.What != f[0].What }) {
		return f[0].What + " (the first message; -o json shows all)"
	}
	return f[0].What
}

// since returns the earliest time of the problem among the objects.
func (f fault) since() *time.Time {
	var first *time.Time
	for _, p := range f {
		if p.Since != nil && (first == nil || p.Since.Before(*first)) {
			first = p.Since
		}
	}
	return first
}
