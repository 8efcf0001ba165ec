package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	bell       = '\a'
	escape     = '\x1b'
	nextLine   = '\u0085'
	csi        = '\u009b'
	terminator = '\u009c'
	lineEnd    = '\u2028'
	paragraph  = '\u2029'
)

// readable is s as valid UTF-8 without anything that a terminal would act upon or
// a person could not see. The kinds of line breaks become one.
func readable(s string) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	if !strings.ContainsFunc(s, isUnreadable) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for s != "" {
		if n := terminalSequence(s); n > 0 {
			s = s[n:]
			continue
		}
		r, size := utf8.DecodeRuneInString(s)
		s = s[size:]
		switch {
		case r == '\r' && strings.HasPrefix(s, "\n"):
			// The line feed that follows is the line break.
		case r == '\r', r == nextLine, r == lineEnd, r == paragraph:
			b.WriteByte('\n')
		case !isUnreadable(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}

// isUnreadable tells what cannot be seen: control characters, and those with
// which text can be hidden from people and still be read by a model, or be shown
// in another order.
func isUnreadable(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case r < utf8.RuneSelf:
		return r < ' ' || r == '\x7f'
	case r == lineEnd, r == paragraph:
		return true
	default:
		return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Variation_Selector)
	}
}

// terminalSequence is how long the terminal sequence is with which s begins; 0
// where it begins with none.
func terminalSequence(s string) int {
	r, size := utf8.DecodeRuneInString(s)
	if r == escape {
		return escapeSequence(s)
	}
	switch {
	case r == csi:
		return size + controlSequence(s[size:])
	case isStringIntroducer(r):
		return size + controlString(s[size:])
	}
	return 0
}

// escapeSequence is how long the sequence is that the escape character at the
// start of s begins.
func escapeSequence(s string) int {
	if len(s) < 2 {
		return 1
	}
	// The second byte of a sequence with seven bits stands for a character of the
	// upper half of the control characters.
	second := rune(s[1]) + 0x40
	switch {
	case second == csi:
		return 2 + controlSequence(s[2:])
	case isStringIntroducer(second):
		return 2 + controlString(s[2:])
	}
	end := 1 + leading(s[1:], ' ', '/')
	if end < len(s) && s[end] >= '0' && s[end] <= '~' {
		end++
	}
	return end
}

// controlSequence is how much of s are the parameters and the final byte of a
// sequence such as those for colours.
func controlSequence(s string) int {
	end := leading(s, '0', '?')
	end += leading(s[end:], ' ', '/')
	if end < len(s) && s[end] >= '@' && s[end] <= '~' {
		end++
	}
	return end
}

func isStringIntroducer(r rune) bool {
	switch r {
	case '\u0090', '\u0098', '\u009d', '\u009e', '\u009f':
		return true
	}
	return false
}

// controlString is how much of s is a string for the terminal, such as a window
// title, with its end. A string without an end is text: nothing shall vanish
// behind the start of one.
func controlString(s string) int {
	end := strings.IndexFunc(s, unicode.IsControl)
	if end < 0 {
		return 0
	}
	r, size := utf8.DecodeRuneInString(s[end:])
	switch {
	case r == bell, r == terminator:
		return end + size
	case r == escape && strings.HasPrefix(s[end+size:], `\`):
		return end + size + 1
	}
	return 0
}

// leading is how many of the first bytes of s are from low to high.
func leading(s string, low, high byte) int {
	for i := range len(s) {
		if s[i] < low || s[i] > high {
			return i
		}
	}
	return len(s)
}
