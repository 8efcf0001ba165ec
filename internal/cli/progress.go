package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"
)

const barColumns = 20

// Progress reports the progress of a long operation. On a terminal it overwrites one line;
// on other streams it prints a line for each change.
type Progress struct {
	out     io.Writer
	live    bool
	columns int
	began   time.Time
	printed map[string]string
}

// NewProgress returns a Progress that began at a time. live enables the mode for terminals,
// with this number of columns.
func NewProgress(out io.Writer, live bool, columns int, began time.Time) *Progress {
	return &Progress{out: out, live: live, columns: columns, began: began, printed: map[string]string{}}
}

// Report reports how many of all are done, and the state of one of them.
func (p *Progress) Report(now time.Time, done, all int, name, state string) {
	name, state = Clean(name), Clean(state)
	elapsed := duration.HumanDuration(now.Sub(p.began))
	if p.live {
		line := fmt.Sprintf("%s %d/%d %s  %s: %s", bar(done, all), done, all, elapsed, name, state)
		fmt.Fprint(p.out, "\r\x1b[K"+cut(line, p.columns-1))
		return
	}
	if p.printed[name] != state {
		p.printed[name] = state
		fmt.Fprintf(p.out, "%s: %s (after %s)\n", name, state, elapsed)
	}
}

// Line replaces the line by a text. It does nothing if the stream is not a terminal.
func (p *Progress) Line(text string) {
	if p.live {
		fmt.Fprint(p.out, "\r\x1b[K"+cut(Clean(text), p.columns-1))
	}
}

// End removes the line, so that further output starts in the first column.
func (p *Progress) End() {
	if p.live {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

func bar(done, all int) string {
	filled := barColumns * done / max(all, 1)
	return "[" + strings.Repeat("#", filled) + strings.Repeat("-", barColumns-filled) + "]"
}

// cut shortens a line to the width of the terminal, because a wrapped line cannot be
// overwritten.
func cut(line string, columns int) string {
	if columns <= 0 || utf8.RuneCountInString(line) <= columns {
		return line
	}
	return string([]rune(line)[:columns-1]) + "…"
}
