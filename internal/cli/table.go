package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

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
	widths := columnWidths(rows)
	if t.Columns > 0 && len(t.Header) > 0 && total(widths) > t.Columns {
		t.list(w, paint)
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

// list writes a line for each cell, and an empty line between two rows.
func (t *Table) list(w io.Writer, paint Paint) {
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
}

func total(widths []int) int {
	sum := gap * (len(widths) - 1)
	for _, width := range widths {
		sum += width
	}
	return sum
}

func columnWidths(rows [][]Cell) []int {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell.Text))
		}
	}
	return widths
}
