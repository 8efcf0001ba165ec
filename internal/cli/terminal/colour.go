package terminal

import (
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// Colour is how a text stands out.
type Colour string

// The colours, as the escape sequences of ECMA-48 number them.
const (
	Plain  Colour = ""
	Bold   Colour = "1"
	Faint  Colour = "2"
	Red    Colour = "31"
	Green  Colour = "32"
	Yellow Colour = "33"
)

// Paint writes text in colours, or plain where it is off.
type Paint bool

// Text gives the text in that colour.
func (p Paint) Text(c Colour, text string) string {
	if !p || c == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// Clean takes out what a terminal would obey: control characters, and those that
// turn the direction of writing. A line end and a tab become a space.
func Clean(text string) string {
	return Visible(strings.NewReplacer("\n", " ", "\t", " ").Replace(text))
}

// Visible is Clean for what has lines and columns of its own, which stay.
func Visible(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return -1
		}
		return r
	}, text)
}

// IsTerminal says that a stream is a terminal.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Colours says whether to write colours to the stream. The environment is asked
// through getenv.
func Colours(stream io.Writer, getenv func(string) string) Paint {
	return Paint(IsTerminal(stream) && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb")
}
