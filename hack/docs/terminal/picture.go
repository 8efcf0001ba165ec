package main

import (
	"fmt"
	"html"
	"strings"
)

// Sizes in pixels.
const (
	charWidth  = 8.4
	lineHeight = 19
	fontSize   = 14
	margin     = 16
	minColumns = 60
)

// colours returns the colors of a dark terminal by their number in ECMA-48. The bright colors, 91
// to 97, are the same as the normal ones.
func colours() map[int]string {
	return map[int]string{0: "#e6edf3", 31: "#ff7b72", 32: "#3fb950", 33: "#d29922", 34: "#58a6ff", 35: "#bc8cff", 36: "#39c5cf", 37: "#e6edf3"}
}

// picture returns a screen as SVG. Each run of one style is stretched to the width of its columns,
// so that columns are aligned with any font.
func picture(s *screen) string {
	columns := minColumns
	for _, line := range s.lines {
		columns = max(columns, len(line))
	}
	var out strings.Builder
	begin(&out, columns, len(s.lines))
	for row, line := range s.lines {
		writeLine(&out, row, line)
	}
	out.WriteString("</svg>\n")
	return out.String()
}

// begin writes the window of a terminal.
func begin(out *strings.Builder, columns, rows int) {
	width, height := float64(columns)*charWidth+2*margin, rows*lineHeight+2*margin
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d">`+"\n", width, height, width, height)
	fmt.Fprintf(out, "<style>text { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: %dpx; white-space: pre }</style>\n", fontSize)
	out.WriteString(`<rect width="100%" height="100%" rx="8" fill="#0d1117"/>` + "\n")
}

func writeLine(out *strings.Builder, row int, line []cell) {
	for begin := 0; begin < len(line); {
		end := begin + 1
		for end < len(line) && line[end].style == line[begin].style {
			end++
		}
		writeRun(out, row, begin, line[begin:end])
		begin = end
	}
}

func writeRun(out *strings.Builder, row, column int, run []cell) {
	text := strings.TrimRight(plain(run), " ")
	trimmed := strings.TrimLeft(text, " ")
	if trimmed == "" {
		return
	}
	column += len([]rune(text)) - len([]rune(trimmed))
	attributes := fmt.Sprintf(`fill="%s"`, colour(run[0].style))
	if run[0].style.bold {
		attributes += ` font-weight="bold"`
	}
	if run[0].style.faint {
		attributes += ` opacity="0.6"`
	}
	fmt.Fprintf(out, `<text xml:space="preserve" x="%.1f" y="%d" textLength="%.1f" %s>%s</text>`+"\n",
		margin+float64(column)*charWidth, margin+row*lineHeight+fontSize, float64(len([]rune(trimmed)))*charWidth, attributes, html.EscapeString(trimmed))
}

func colour(s style) string {
	number := s.colour
	if number > 90 {
		number -= 60
	}
	return colours()[number]
}
