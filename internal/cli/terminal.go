package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Colour is a color or a style of text.
type Colour string

// The colors and styles, as parameters of the ECMA-48 sequence SGR.
const (
	Plain  Colour = ""
	Bold   Colour = "1"
	Faint  Colour = "2"
	Red    Colour = "31"
	Green  Colour = "32"
	Yellow Colour = "33"
)

// Paint enables colors.
type Paint bool

// Text returns the text in a color.
func (p Paint) Text(c Colour, text string) string {
	if !p || c == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// Clean removes characters that control the terminal: control characters, and those that
// change the text direction. Line feeds and tabs are replaced by spaces.
func Clean(text string) string {
	return Visible(strings.NewReplacer("\n", " ", "\t", " ").Replace(text))
}

// Visible is Clean, but keeps line feeds and tabs.
func Visible(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return -1
		}
		return r
	}, text)
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Colours returns whether to use colors on the stream.
func Colours(stream io.Writer) Paint {
	return Paint(Sequences(stream) && os.Getenv("NO_COLOR") == "")
}

// Sequences returns whether the stream is a terminal that interprets escape sequences, after it
// made the terminal do so.
func Sequences(stream io.Writer) bool {
	return IsTerminal(stream) && interpretsSequences(stream.(*os.File)) && os.Getenv("TERM") != "dumb"
}

// Ask asks a question and returns true if the answer is y or yes. It returns false for
// anything else, including the end of the input. It returns early when the context is done.
func Ask(ctx context.Context, in io.Reader, out io.Writer, question string) (bool, error) {
	fmt.Fprint(out, question+" [y/N] ")
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n')
		answer <- line
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(out)
		return false, ctx.Err()
	case line := <-answer:
		line = strings.ToLower(strings.TrimSpace(line))
		return line == "y" || line == "yes", nil
	}
}

// Wrap breaks a text between words into lines of at most columns columns, including the
// indent. The first line is not indented, because the caller has printed the text before
// it. A word that is longer than a line is not broken. If columns is not larger than the
// indent, Wrap returns the text unchanged.
func Wrap(text string, columns int, indent string) string {
	if columns <= len(indent) {
		return text
	}
	var out strings.Builder
	used := len(indent)
	for i, word := range strings.Split(text, " ") {
		length := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case used+1+length > columns:
			out.WriteString("\n" + indent)
			used = len(indent)
		default:
			out.WriteByte(' ')
			used++
		}
		out.WriteString(word)
		used += length
	}
	return out.String()
}

// Ago returns the time since a moment in the format of kubectl: "5m", "3d4h".
func Ago(now, moment time.Time) string {
	if moment.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(moment))
}

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
		filled := barColumns * done / max(all, 1)
		bar := strings.Repeat("#", filled) + strings.Repeat("-", barColumns-filled)
		p.Line(fmt.Sprintf("[%s] %d/%d %s  %s: %s", bar, done, all, elapsed, name, state))
		return
	}
	if p.printed[name] != state {
		p.printed[name] = state
		fmt.Fprintf(p.out, "%s: %s (after %s)\n", name, state, elapsed)
	}
}

// Line replaces the line by a text. It does nothing if the stream is not a terminal.
func (p *Progress) Line(text string) {
	if !p.live {
		return
	}
	text = Clean(text)
	// A line that the terminal wraps could not be overwritten.
	if most := p.columns - 1; most > 0 && utf8.RuneCountInString(text) > most {
		text = string([]rune(text)[:most-1]) + "…"
	}
	fmt.Fprint(p.out, "\r\x1b[K"+text)
}

// End removes the line, so that further output starts in the first column.
func (p *Progress) End() {
	if p.live {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
