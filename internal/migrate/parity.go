package migrate

import (
	"regexp"
	"strings"

	"github.com/coder-k8s/coder-k8s/docs"
)

// The headings of the tables.
const (
	parityControlPlane   = "The chart coder: CoderControlPlane"
	parityWorkspaceProxy = "The chart coder with workspaceProxy: CoderWorkspaceProxy"
	parityProvisioner    = "The chart provisioner: CoderProvisioner"
)

// parityRow is one value of a chart.
type parityRow struct {
	// Value is the path of the value, for example coder.image.tag.
	Value string
	// Fields are the fields that replace it. Empty means that there is another way, or that the
	// value is not needed.
	Fields []string
	// Remark is a note about the mapping.
	Remark string
}

// parityTable contains the rows of one chart by the paths of their values.
type parityTable map[string]parityRow

var (
	cells = regexp.MustCompile("^\\| `([^`]+)` \\| (.*?) \\| ?(.*?) ?\\|$")
	field = regexp.MustCompile("`(spec(?:\\.[A-Za-z]+(?:\\[\\])?)+)`")
)

// readParity returns the table under a heading. A row with the remark "As above." gets the remark of the
// row before.
func readParity(heading string) parityTable {
	table := parityTable{}
	_, text, _ := strings.Cut("\n"+docs.HelmParity, "\n## "+heading+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	last := ""
	for line := range strings.SplitSeq(text, "\n") {
		match := cells.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		row := parityRow{Value: match[1], Remark: match[3]}
		for _, found := range field.FindAllStringSubmatch(match[2], -1) {
			row.Fields = append(row.Fields, found[1])
		}
		if row.Remark == "As above." {
			row.Remark = last
		}
		last = row.Remark
		table[row.Value] = row
	}
	return table
}

// whole reports whether a path is converted as a whole: it has a row, and no row is below it.
func (t parityTable) whole(path string) bool {
	if _, ok := t[path]; !ok {
		return false
	}
	for value := range t {
		if strings.HasPrefix(value, path+".") {
			return false
		}
	}
	return true
}

// covers reports whether a path is a value of the chart: it has a row, or it is below or above one.
func (t parityTable) covers(path string) bool {
	for value := range t {
		if value == path || strings.HasPrefix(path, value+".") && t.whole(value) || strings.HasPrefix(value, path+".") {
			return true
		}
	}
	return false
}
