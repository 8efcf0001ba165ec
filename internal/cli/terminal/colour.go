package terminal

import (
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
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
