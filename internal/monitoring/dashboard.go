package monitoring

import "slices"

// PanelKind is how a panel shows its queries.
type PanelKind string

// The kinds, by the names that Grafana gives them.
const (
	// Graph is lines over time.
	Graph PanelKind = "timeseries"
	// Number is the last value, large.
	Number PanelKind = "stat"
	// Table is a row for each series, by its last value.
	Table PanelKind = "table"
)

// Unit is what the values of a panel are, by the names that Grafana gives them.
type Unit string

// The units.
const (
	Plain     Unit = "short"
	Seconds   Unit = "s"
	Duration  Unit = "dtdurations"
	PerSecond Unit = "ops"
	Bytes     Unit = "bytes"
	Ratio     Unit = "percentunit"
)

// Row is a titled part of the dashboard.
type Row struct {
	Title  string
	Panels []Panel
}

// Panel is one picture.
type Panel struct {
	Title string
	// Description says what to read from it.
	Description string
	Kind        PanelKind
	Unit        Unit
	Queries     []Query
	// Always says that a query has a result on every healthy installation. The others
	// have one only when something happens that may never happen.
	Always bool
}

// Query is one PromQL expression and how its series are called.
type Query struct {
	Expr string
	// Legend is a template of Grafana over the labels, for example {{name}}.
	Legend string
}

// Dashboard are the rows, from top to bottom.
func Dashboard() []Row {
	return []Row{overview(), objects(), coderCalls(), aggregatedAPI(), mirror(), replication(), mcp(), process()}
}

// Panels are those of all rows.
func Panels() []Panel {
	var all []Panel
	for _, row := range Dashboard() {
		all = slices.Concat(all, row.Panels)
	}
	return all
}

// oneQuery is the queries of a panel with one.
func oneQuery(expr, legend string) []Query { return []Query{{Expr: ours(expr), Legend: legend}} }
