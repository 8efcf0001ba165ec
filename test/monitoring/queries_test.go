package monitoring

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// targetLabels returns the labels that Prometheus adds to all series of a
// ServiceMonitor, and those of the series that it creates itself.
func targetLabels() []string {
	return []string{"job", "instance", "namespace", "pod", "service", "endpoint", "container", "le", "__name__"}
}

// node is a part of a query, as Prometheus parses it.
type node struct {
	Type string `json:"type"`
	Name string `json:"name"`
	// Matchers select series.
	Matchers []struct{ Name, Value string } `json:"matchers"`
	// Grouping are the labels of "by".
	Grouping []string `json:"grouping"`
	Without  bool     `json:"without"`
	children []*node
}

// UnmarshalJSON implements json.Unmarshaler. The children of a node have different
// names in each kind of node.
func (n *node) UnmarshalJSON(content []byte) error {
	type plain node
	if err := json.Unmarshal(content, (*plain)(n)); err != nil {
		return err
	}
	var parts struct {
		Expr, LHS, RHS *node
		Args           []*node
	}
	if err := json.Unmarshal(content, &parts); err != nil {
		return err
	}
	for _, child := range append(parts.Args, parts.Expr, parts.LHS, parts.RHS) {
		if child != nil {
			n.children = append(n.children, child)
		}
	}
	return nil
}

// selectors returns the selectors of series below a node.
func (n *node) selectors() []*node {
	var all []*node
	if n.Type == "vectorSelector" || n.Type == "matrixSelector" {
		all = append(all, n)
	}
	for _, child := range n.children {
		all = append(all, child.selectors()...)
	}
	return all
}

// groupings visits the labels of each grouping, at a node and below it, with the
// series that are grouped.
func (n *node) groupings(visit func(labels []string, over []*node)) {
	if n.Type == "aggregation" && !n.Without {
		visit(n.Grouping, n.selectors())
	}
	for _, child := range n.children {
		child.groupings(visit)
	}
}

// row matches a line of a table of the reference: the metric, its type if the table has one, and its labels.
var row = regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\|(?: (gauge|counter|histogram) \\|)? ([^|]*) \\|")

// exported returns the labels of every exported metric, by name: those of the generated reference, and those of Go and the
// process, which it leaves out.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{"up": nil, "ALERTS": {"alertname", "alertstate", "severity"}, "go_goroutines": nil,
		"process_cpu_seconds_total": nil, "process_resident_memory_bytes": nil}
	for _, metric := range row.FindAllStringSubmatch(string(text), -1) {
		name, labels := metric[1], strings.FieldsFunc(metric[3], func(r rune) bool { return strings.ContainsRune("`, ", r) })
		all[name] = labels
		if metric[2] == "histogram" || metric[2] == "" {
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				all[name+suffix] = labels
			}
		}
	}
	return all
}

// queries returns all queries of the alerts and the dashboard, by their location.
func queries(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, alert := range alerts(t) {
		all["alert "+alert.Alert] = alert.Expr.String()
	}
	for _, panel := range panels(t) {
		for i, query := range panel.Targets {
			all[fmt.Sprintf("panel %s, query %d", panel.Title, i+1)] = forPrometheus(query.Expr)
		}
	}
	return all
}

// Every query can be parsed, and uses existing metrics with existing labels.
func TestQueriesAskForWhatIsExported(t *testing.T) {
	prometheus := startPrometheus(t, map[string]any{})
	known := exported(t)
	for where, query := range queries(t) {
		t.Run(where, func(t *testing.T) {
			var root node
			if err := prometheus.data("/api/v1/parse_query", url.Values{"query": {query}}, &root); err != nil {
				t.Fatal(err)
			}
			if len(root.selectors()) == 0 {
				t.Fatalf("it asks for nothing: %s", query)
			}
			for _, selector := range root.selectors() {
				mustBeExported(t, known, selector)
			}
			root.groupings(func(labels []string, over []*node) {
				for _, label := range labels {
					if !slices.ContainsFunc(over, func(s *node) bool { return hasLabel(known, s.Name, label) }) {
						t.Errorf("it is grouped by %q, which nothing in it has: %s", label, query)
					}
				}
			})
		})
	}
}

func mustBeExported(t *testing.T, known map[string][]string, selector *node) {
	t.Helper()
	if _, is := known[selector.Name]; !is {
		t.Errorf("the process has no metric %q", selector.Name)
		return
	}
	job := false
	for _, matcher := range selector.Matchers {
		job = job || matcher.Name == "job"
		if !hasLabel(known, selector.Name, matcher.Name) {
			t.Errorf("the metric %s has no label %q", selector.Name, matcher.Name)
		}
	}
	if !job && !strings.HasPrefix(selector.Name, "coder_k8s_") && selector.Name != "ALERTS" {
		t.Errorf("%s is a metric of others too, and the job is not chosen", selector.Name)
	}
}

func hasLabel(known map[string][]string, metric, label string) bool {
	return slices.Contains(known[metric], label) || slices.Contains(targetLabels(), label)
}

// Legends use labels that the result of their query has.
func TestPanels(t *testing.T) {
	titles := map[string]bool{}
	for _, panel := range panels(t) {
		title := panel.row + ": " + panel.Title
		if titles[title] {
			t.Errorf("%s: there are two of that title", title)
		}
		titles[title] = true
		if len(panel.Targets) == 0 || panel.Description == "" {
			t.Errorf("%s: it has %d queries and the description %q", title, len(panel.Targets), panel.Description)
		}
		for _, query := range panel.Targets {
			if panel.Type == "timeseries" && query.LegendFormat == "" {
				t.Errorf("%s: the lines of %s have no names", title, query.Expr)
			}
			for part := range strings.SplitSeq(query.LegendFormat, "{{") {
				label, _, found := strings.Cut(part, "}}")
				if found && !strings.Contains(query.Expr, label) {
					t.Errorf("%s: the legend names %q, and the query does not: %s", title, label, query.Expr)
				}
			}
		}
	}
}
