package plugin

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/installation"
)

// exitWrong is the exit code if there is a problem.
const exitWrong = 4

type statusRun struct {
	*Session
	format                   cli.Format
	everywhere, installation bool
	watch                    bool
	interval                 time.Duration
	operatorNamespace        string
}

func newStatusCommand(s *Session) *cobra.Command {
	r := &statusRun{Session: s}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of Coder on this cluster, its problems and since when they exist",
		Long: "Shows control planes, provisioners, workspace proxies, and templates and workspaces by their state, and then the\n" +
			"problems of these objects and of the operator's installation, since when they exist, and what to do.\n\n" +
			"Exit codes: 0 no problems; 1 nothing could be read; 2 wrong command line; 3 no problems in the objects that could\n" +
			"be read, and the others are named; 4 problems were found.",
		Example: "  kubectl coder status -A\n  kubectl coder status -n coder --watch\n  kubectl coder status -A -o json | jq .problems",
		Args:    cli.NoArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return r.do(cmd.Context()) },
	}
	r.format.AddFlag(cmd, cli.Wide, cli.JSON, cli.YAML)
	flags := cmd.Flags()
	flags.BoolVarP(&r.everywhere, "all-namespaces", "A", false, "show all namespaces")
	flags.BoolVarP(&r.watch, "watch", "w", false, "continue until interrupted; without a terminal, print a report whenever it changes")
	flags.DurationVar(&r.interval, "interval", 2*time.Second, "with --watch: the interval, at least 1s")
	flags.BoolVar(&r.installation, "installation", true, "check the installation of the operator too, which needs cluster-wide permissions")
	flags.StringVar(&r.operatorNamespace, "operator-namespace", installation.Namespace, "where the operator is installed")
	s.CompleteNamespaces(cmd, "operator-namespace")
	return cmd
}

func (r *statusRun) do(ctx context.Context) error {
	if r.interval < time.Second {
		return cli.Usage("--interval is %s, and must be at least 1s", r.interval)
	}
	cluster, err := r.Cluster()
	if err != nil {
		return err
	}
	report, err := r.gather(ctx, cluster)
	if err == nil {
		err = r.show(report)
	}
	for before := report; r.watch; before = report {
		if r.Wait(ctx, r.interval) != nil {
			break
		}
		if report, err = r.gather(ctx, cluster); err != nil && ctx.Err() != nil {
			report, err = before, nil
			break
		}
		switch {
		case err != nil:
			fmt.Fprintf(r.ErrOut, "the state could not be read: %s\n", cli.Clean(err.Error()))
		case r.Screen || !reflect.DeepEqual(before, report):
			err = r.show(report)
		}
	}
	if err != nil || report == nil {
		return err
	}
	switch {
	case len(report.Problems) > 0:
		return &cli.ExitError{Code: exitWrong}
	case len(report.NotSeen) > 0:
		return &cli.ExitError{Code: cli.ExitPartial}
	}
	return nil
}

// show prints the report. On a terminal, --watch replaces the previous report.
func (r *statusRun) show(report *statusReport) error {
	if r.format.Structured() {
		return r.format.Write(r.Out, report)
	}
	var text bytes.Buffer
	if r.watch && r.Screen {
		text.WriteString("\x1b[H\x1b[2J")
	}
	r.draw(&text, report)
	if _, err := r.Out.Write(text.Bytes()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// workloadHint returns a command that shows the cause: the log or the description of the pods if
// the reason concerns them, else the description of the object.
func workloadHint(kind string, object client.Object, reason, selector string) string {
	pods := ""
	switch reason {
	case coderv1alpha1.ReasonCrashLooping, coderv1alpha1.ReasonDatabaseSchemaNewer:
		pods = "logs --prefix --previous"
	case coderv1alpha1.ReasonDatabaseUnreachable, coderv1alpha1.ReasonDatabaseMissing, coderv1alpha1.ReasonUnreachable:
		pods = "logs --prefix"
	case coderv1alpha1.ReasonImagePullFailed, coderv1alpha1.ReasonContainerConfigInvalid, coderv1alpha1.ReasonUnschedulable, coderv1alpha1.ReasonNodeLost,
		coderv1alpha1.ReasonProgressing, coderv1alpha1.ReasonProgressDeadlineExceeded:
		pods = "describe pods"
	case coderv1alpha1.ReasonPodsRefused:
		pods = "describe replicasets"
	}
	if strings.HasPrefix(reason, "Upgrade") {
		return fmt.Sprintf("kubectl coder upgrade status -n %s %s", object.GetNamespace(), object.GetName())
	}
	if pods == "" || selector == "" {
		return fmt.Sprintf("kubectl -n %s describe %s %s", object.GetNamespace(), strings.ToLower(kind), object.GetName())
	}
	return fmt.Sprintf("kubectl -n %s %s -l %s", object.GetNamespace(), pods, selector)
}

// podInMessage matches the beginning of the message of condition PodsHealthy: the namespace and name of the pod.
var podInMessage = regexp.MustCompile(`^pod ([a-z0-9.-]+)/([a-z0-9.-]+): `)

// workspaceHint is like workloadHint, for a workspace. Its pods may be in another namespace, which the message of
// condition PodsHealthy contains if one of them has a problem. elsewhere are the other namespaces in which pods may be.
func workspaceHint(w *aggregationv1alpha1.CoderWorkspace, reason string, elsewhere []string) string {
	namespace, pods := w.Namespace, "-l "+aggregationv1alpha1.LabelWorkspaceID+"="+w.Status.ID
	if c := meta.FindStatusCondition(w.Status.Conditions, aggregationv1alpha1.ConditionPodsHealthy); c != nil {
		if pod := podInMessage.FindStringSubmatch(c.Message); pod != nil {
			namespace, pods, elsewhere = pod[1], pod[2], nil
		}
	}
	log := ""
	switch reason {
	case aggregationv1alpha1.ReasonAgentsUnhealthy:
		log = " --scripts"
	case aggregationv1alpha1.ReasonContainerCrashed, aggregationv1alpha1.ReasonOutOfMemory:
		// Containers that were not restarted have no such log, which would end the command.
		return fmt.Sprintf("kubectl -n %s logs --all-containers --ignore-errors --prefix --previous %s", namespace, pods)
	case aggregationv1alpha1.ReasonAgentsUnavailable:
		hint := fmt.Sprintf("kubectl -n %s logs --all-containers --prefix --tail=-1 %s", namespace, pods)
		if len(elsewhere) > 0 {
			hint += "; if its pods are not there, in " + strings.Join(elsewhere, " or ")
		}
		return hint
	case aggregationv1alpha1.ReasonImagePullFailed, aggregationv1alpha1.ReasonContainerConfigInvalid, aggregationv1alpha1.ReasonUnschedulable,
		aggregationv1alpha1.ReasonVolumeMountFailed, aggregationv1alpha1.ReasonSandboxFailed, aggregationv1alpha1.ReasonPodEvicted,
		aggregationv1alpha1.ReasonNodeLost:
		return fmt.Sprintf("kubectl -n %s describe pods %s", namespace, pods)
	case aggregationv1alpha1.ReasonNoProvisioner:
		return fmt.Sprintf("kubectl -n %s get coderprovisioners shows the provisioners, kubectl coder orphan -n %[1]s %s deletes it without a build", w.Namespace, w.Name)
	case aggregationv1alpha1.ReasonPodGone:
		return fmt.Sprintf("kubectl coder restart -n %s %s creates its pod again", w.Namespace, w.Name)
	}
	return fmt.Sprintf("kubectl coder logs -n %s %s%s", w.Namespace, w.Name, log)
}

// statusReport is the output of -o json.
type statusReport struct {
	// Namespace is the namespace of the report, or empty for all namespaces.
	Namespace     string           `json:"namespace,omitempty"`
	ControlPlanes []statusWorkload `json:"controlPlanes"`
	Provisioners  []statusWorkload `json:"provisioners"`
	// WorkspaceProxies are the proxies that the operator manages.
	WorkspaceProxies []statusWorkload `json:"workspaceProxies"`
	Templates        statusCount      `json:"templates"`
	Workspaces       statusCount      `json:"workspaces"`
	// Problems are the problems of the installation, followed by those of objects.
	Problems []statusProblem `json:"problems"`
	// NotSeen lists what could not be read, and why.
	NotSeen []string `json:"notSeen,omitempty"`

	// planesSeen reports that the list of control planes is complete.
	planesSeen bool
}

// statusWorkload is a control plane, provisioner or proxy.
type statusWorkload struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Ready and State are the status and the reason of the condition Ready. kubectl get shows them
	// as READY and STATUS.
	Ready string `json:"ready"`
	State string `json:"state"`
	// ReadyPods and Pods are the numbers of pods.
	ReadyPods int32 `json:"readyPods"`
	Pods      int32 `json:"pods"`
	// Version is the version of Coder in the status.
	Version string `json:"version,omitempty"`
	// VersionSupported is the status of the condition VersionSupported.
	VersionSupported metav1.ConditionStatus `json:"versionSupported,omitempty"`
	// Of is the control plane that it belongs to, or the URL of the Coder.
	Of      string    `json:"of,omitempty"`
	URL     string    `json:"url,omitempty"`
	Created time.Time `json:"created"`
}

// statusProblem is a problem of the installation or of an object.
type statusProblem struct {
	installation.Problem `json:",inline"`
	// Kind, Namespace, Name and Reason are set for an object that is not ready.
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

// statusCount is the number of objects, in total and by state.
type statusCount struct {
	// Unseen reports that the number is unknown.
	Unseen  bool           `json:"unseen,omitempty"`
	Total   int            `json:"total"`
	ByState map[string]int `json:"byState,omitempty"`
}

func (c *statusCount) add(state string) {
	if c.ByState == nil {
		c.ByState = map[string]int{}
	}
	c.Total++
	c.ByState[state]++
}

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
		title := f[0].Object
		if len(f) > 1 {
			names := firstNames(len(f), mostNamedInTitle, func(i int) string { return f[i].Namespace + "/" + f[i].Name })
			kind := f[0].Kind + "s"
			if stem, ok := strings.CutSuffix(f[0].Kind, "y"); ok {
				kind = stem + "ies"
			}
			title = fmt.Sprintf("%d %s (%s)", len(f), kind, names)
		}
		fmt.Fprintf(out, "%s%s\n", r.Paint.Text(cli.Red, cli.Clean(title)), since)
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

// faults groups the problems of objects of one kind by reason and message. If a reason has many
// messages, it groups by the reason only. The order is the order of the first problem in each
// group.
func faults(all []statusProblem) [][]statusProblem {
	type cause struct{ kind, reason, what string }
	different := map[cause][]string{}
	for _, p := range all {
		if c := (cause{kind: p.Kind, reason: p.Reason}); !slices.Contains(different[c], p.What) {
			different[c] = append(different[c], p.What)
		}
	}
	var found [][]statusProblem
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
