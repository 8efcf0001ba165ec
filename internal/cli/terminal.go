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

// Colours returns whether to use colors on the stream. getenv reads environment variables.
func Colours(stream io.Writer, getenv func(string) string) Paint {
	return Paint(IsTerminal(stream) && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb")
}

// Ask asks a question and returns true if the answer is y or yes. It returns false for
// anything else, including the end of the input. It returns early when the context is done.
func Ask(ctx context.Context, in io.Reader, out io.Writer, question string) (bool, error) {
	fmt.Fprintf(out, "%s [y/N] ", question)
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
