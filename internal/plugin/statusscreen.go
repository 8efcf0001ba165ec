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

// draw writes a report for people.
func (r *statusRun) draw(out io.Writer, report *statusReport) {
	r.workloads(out, "Control planes", report.ControlPlanes, "VERSION")
	r.workloads(out, "Provisioners", report.Provisioners, "CONTROL PLANE")
	r.workloads(out, "Workspace proxies", report.WorkspaceProxies, "CONTROL PLANE")
	if report.planesSeen && len(report.ControlPlanes) == 0 && report.Templates.Total+report.Workspaces.Total == 0 {
		fmt.Fprintln(out, noControlPlane(report.Namespace)+"\n")
	} else {
		table := &cli.Table{}
		table.Add(cli.Text("Templates").In(cli.Bold), cli.Text(statusSum(report.Templates)))
		table.Add(cli.Text("Workspaces").In(cli.Bold), cli.Text(statusSum(report.Workspaces)))
		table.Write(out, r.Paint)
		fmt.Fprintln(out)
	}
	if len(report.Problems) > 0 {
		r.problems(out, report.Problems)
	}
	for _, what := range report.NotSeen {
		fmt.Fprintf(out, "%s %s\n", r.Paint.Text(cli.Yellow, "Not checked:"), cli.Wrap(cli.Clean(what), r.ScreenColumns, ""))
	}
	if len(report.Problems)+len(report.NotSeen) == 0 {
		fmt.Fprintln(out, r.Paint.Text(cli.Green, "No problems."))
	}
}

func (r *statusRun) workloads(out io.Writer, title string, all []statusWorkload, column string) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(out, r.Paint.Text(cli.Bold, title))
	table := &cli.Table{Columns: r.ScreenColumns, Header: []string{"NAMESPACE", "NAME", "READY", "STATUS", "REPLICAS", column, "AGE"}}
	if r.format == cli.Wide {
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
			cli.Text(fmt.Sprintf("%d/%d", w.ReadyPods, w.Pods)), versionCell(cmp.Or(w.Version, w.Of), w.VersionSupported), cli.Text(cli.Ago(r.Now(), w.Created)),
		}
		if r.format == cli.Wide {
			row = append(row, cli.Text(w.URL))
		}
		table.Add(row...)
	}
	table.Write(out, r.Paint)
	fmt.Fprintln(out)
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

func (r *statusRun) problems(out io.Writer, all []statusProblem) {
	fmt.Fprintln(out, r.Paint.Text(cli.Bold, fmt.Sprintf("Problems (%d)", len(all))))
	found := faults(all)
	for _, f := range found[:min(len(found), mostFaults)] {
		since, first := "", time.Time{}
		for _, p := range f {
			if p.Since != nil && (since == "" || p.Since.Before(first)) {
				first, since = *p.Since, " for "+cli.Ago(r.Now(), *p.Since)
			}
		}
		text := f[0].What
		if slices.ContainsFunc(f, func(p statusProblem) bool { return p.What != text }) {
			text += " (the first message; -o json shows all)"
		}
		fmt.Fprintf(out, "%s%s\n", r.Paint.Text(cli.Red, cli.Clean(f.title())), since)
		fmt.Fprintf(out, "  %s\n", cli.Wrap(cli.Clean(text), r.ScreenColumns, "  "))
		if do := f[0].Do; do != "" {
			// Commands are not wrapped, so that they can be copied.
			fmt.Fprintf(out, "  %s %s\n", r.Paint.Text(cli.Faint, "do:"), cli.Clean(do))
		}
	}
	if more := len(found) - mostFaults; more > 0 {
		fmt.Fprintf(out, "and %d more: -o json shows all\n", more)
	}
	fmt.Fprintln(out)
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
