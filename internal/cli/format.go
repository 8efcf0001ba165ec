package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// Format is a value of -o.
type Format string

// The formats. Human is the default without -o.
const (
	Human Format = ""
	Wide  Format = "wide"
	JSON  Format = "json"
	YAML  Format = "yaml"
	Name  Format = "name"
)

// AddFlag adds -o with the formats that the command supports, which are at least two.
func (f *Format) AddFlag(cmd *cobra.Command, known ...Format) {
	var names []string
	for _, k := range known {
		names = append(names, string(k))
	}
	last := len(names) - 1
	choice := strings.Join(names[:last], ", ") + " or " + names[last]
	cmd.Flags().FuncP("output", "o", "output `format`: "+choice, func(text string) error {
		if !slices.Contains(names, text) {
			return fmt.Errorf("must be %s", choice)
		}
		*f = Format(text)
		return nil
	})
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
}

// Structured reports whether the format is for programs.
func (f Format) Structured() bool { return f == JSON || f == YAML }

// Write writes an answer in a structured format.
func (f Format) Write(w io.Writer, answer any) error {
	text, err := json.MarshalIndent(answer, "", "  ")
	if err == nil && f == YAML {
		text, err = yaml.JSONToYAML(text)
	}
	if err != nil {
		return fmt.Errorf("writing the output as %s: %w", f, err)
	}
	_, err = fmt.Fprintln(w, strings.TrimRight(string(text), "\n"))
	return err
}

// Cell is a text in a table.
type Cell struct {
	Text   string
	Colour Colour
}

// Table is a header and rows, with aligned columns. Lines have no trailing spaces.
type Table struct {
	Header []string
	Rows   [][]Cell
	// Columns is the width of the terminal. If a table with a header does not fit, it is
	// written with a line for each cell, because a terminal breaks long lines within words.
	// 0 means no limit.
	Columns int
}

// gap is the number of spaces between two columns.
const gap = 3

// Add adds a row.
func (t *Table) Add(cells ...Cell) { t.Rows = append(t.Rows, cells) }

// Text returns a cell without color. An empty text is shown as a dash, so that columns can
// be counted.
func Text(text string) Cell {
	if text = Clean(text); text == "" {
		text = "-"
	}
	return Cell{Text: text}
}

// In returns the cell in a color.
func (c Cell) In(colour Colour) Cell { return Cell{Text: c.Text, Colour: colour} }

// Write writes the table. It writes nothing if there are no rows.
func (t *Table) Write(w io.Writer, paint Paint) {
	if len(t.Rows) == 0 {
		return
	}
	rows := make([][]Cell, 0, len(t.Rows)+1)
	if len(t.Header) > 0 {
		head := make([]Cell, 0, len(t.Header))
		for _, text := range t.Header {
			head = append(head, Cell{text, Faint})
		}
		rows = append(rows, head)
	}
	rows = append(rows, t.Rows...)
	widths, total := columnWidths(rows)
	if t.Columns > 0 && len(t.Header) > 0 && total > t.Columns {
		for i, row := range t.Rows {
			if i > 0 {
				fmt.Fprintln(w)
			}
			lines := &Table{}
			for j, cell := range row {
				lines.Add(Cell{t.Header[j], Faint}, cell)
			}
			lines.Write(w, paint)
		}
		return
	}
	for _, row := range rows {
		for len(row) > 0 && row[len(row)-1].Text == "" {
			row = row[:len(row)-1]
		}
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(paint.Text(cell.Colour, cell.Text))
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell.Text)+gap))
			}
		}
		fmt.Fprintln(w, line.String())
	}
}

// columnWidths returns the width of each column, and of all with the gaps between them.
func columnWidths(rows [][]Cell) (widths []int, total int) {
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell.Text))
		}
	}
	total = gap * (len(widths) - 1)
	for _, width := range widths {
		total += width
	}
	return widths, total
}
