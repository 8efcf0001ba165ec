package terminal

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"
)

const barColumns = 20

// Progress tells how far something is that takes long. On a terminal it is one
// line, written anew each time; elsewhere a line for each news.
type Progress struct {
	out     io.Writer
	live    bool
	columns int
	began   time.Time
	told    map[string]string
}

// NewProgress begins at a moment. Live is for a terminal of so many columns.
func NewProgress(out io.Writer, live bool, columns int, began time.Time) *Progress {
	return &Progress{out: out, live: live, columns: columns, began: began, told: map[string]string{}}
}

// Report tells that so many of all are done, and what one of them is at.
func (p *Progress) Report(now time.Time, done, all int, name, state string) {
	name, state = Clean(name), Clean(state)
	elapsed := duration.HumanDuration(now.Sub(p.began))
	if p.live {
		line := fmt.Sprintf("%s %d/%d %s  %s: %s", bar(done, all), done, all, elapsed, name, state)
		fmt.Fprint(p.out, "\r\x1b[K"+cut(line, p.columns-1))
		return
	}
	if p.told[name] != state {
		p.told[name] = state
		fmt.Fprintf(p.out, "%s: %s (after %s)\n", name, state, elapsed)
	}
}

// Line shows a text in the place of the line, on a terminal alone.
func (p *Progress) Line(text string) {
	if p.live {
		fmt.Fprint(p.out, "\r\x1b[K"+cut(Clean(text), p.columns-1))
	}
}

// End takes the line away, so that what follows begins at the margin.
func (p *Progress) End() {
	if p.live {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

func bar(done, all int) string {
	filled := barColumns * done / max(all, 1)
	return "[" + strings.Repeat("#", filled) + strings.Repeat("-", barColumns-filled) + "]"
}

// cut keeps a line from going on in the next one, where it could not be written
// anew.
func cut(line string, columns int) string {
	if columns <= 0 || utf8.RuneCountInString(line) <= columns {
		return line
	}
	return string([]rune(line)[:columns-1]) + "…"
}
