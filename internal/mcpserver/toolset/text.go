package toolset

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// CleanText removes terminal sequences and control characters other than line breaks and tabs,
// replaces invalid UTF-8, and replaces text that looks like a secret (tokens, passwords in
// URLs, private keys) by redaction.Placeholder.
//
// The result can be longer than s, because the placeholder can be longer than a secret.
func CleanText(s string) string { return redaction.Prose(readable(s)) }

const (
	bell       = '\a'
	escape     = '\x1b'
	nextLine   = '\u0085'
	csi        = '\u009b'
	terminator = '\u009c'
	lineEnd    = '\u2028'
	paragraph  = '\u2029'
)

// readable returns s as valid UTF-8 without terminal sequences and invisible characters.
// All kinds of line breaks become line feeds.
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

// isUnreadable reports whether r is invisible: a control character, or a format character
// that can hide text from users but not from a model, or change the order in which text is
// displayed.
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

// terminalSequence returns the length of the terminal sequence at the start of s, or 0 if
// there is none.
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

// escapeSequence returns the length of the sequence that begins with the escape character
// at the start of s.
func escapeSequence(s string) int {
	if len(s) < 2 {
		return 1
	}
	// In 7-bit form, ESC and a second byte represent a C1 control character.
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

// controlSequence returns the length of the parameters and the final byte of a control
// sequence, such as one for colors.
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

// controlString returns the length of a control string, such as a window title, with its
// terminator. It returns 0 if there is no terminator: an unterminated string is text, so
// that nothing after it is lost.
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

// leading returns the number of bytes at the start of s that are between low and high.
func leading(s string, low, high byte) int {
	for i := range len(s) {
		if s[i] < low || s[i] > high {
			return i
		}
	}
	return len(s)
}

// chunk is the size of a read, in bytes.
const chunk = 32 << 10

// ReadTail reads r to its end and keeps the newest lines: at most maxLines lines and maxBytes
// bytes. cut reports whether something was left out. Nothing is kept if maxLines or
// maxBytes is not positive.
//
// It uses about 2*maxBytes of memory, however long r is. The error is that of r; the text
// before the error is returned too.
func ReadTail(r io.Reader, maxLines, maxBytes int) (kept string, cut bool, err error) {
	maxBytes = max(maxBytes, 0)
	// One byte more than the limit, to find out whether the kept text starts at the
	// beginning of a line.
	window, cut, err := newest(r, maxBytes+1)
	if len(window) > maxBytes {
		cut = true
		window = wholeLines(window)
	}
	lines, fewer := lastLines(string(window), maxLines)
	return lines, cut || fewer, err
}

// newest reads r to its end and returns its last bytes, at most limit of them. cut reports
// whether there were more.
func newest(r io.Reader, limit int) (window []byte, cut bool, err error) {
	most := max(2*limit, limit+chunk)
	for {
		if len(window)+chunk > most {
			cut = true
			window = window[:copy(window, window[len(window)-limit:])]
		}
		window = slices.Grow(window, chunk)
		n, err := r.Read(window[len(window) : len(window)+chunk])
		window = window[:len(window)+n]
		if err == nil {
			continue
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		if len(window) > limit {
			window, cut = window[len(window)-limit:], true
		}
		return window, cut, err
	}
}

// wholeLines removes the incomplete line at the start of the window, whose first byte
// exceeds the limit. If the window contains only one line, it keeps the end of that line,
// from the first complete character.
func wholeLines(window []byte) []byte {
	if lineEnd := bytes.IndexByte(window, '\n'); lineEnd >= 0 && lineEnd+1 < len(window) {
		return window[lineEnd+1:]
	}
	window = window[1:]
	start := 0
	for start < min(len(window), utf8.UTFMax) && !utf8.RuneStart(window[start]) {
		start++
	}
	return window[start:]
}

// lastLines returns the last lines of s, at most limit of them. fewer reports whether there
// were more. A line break at the end does not start another line.
func lastLines(s string, limit int) (lines string, fewer bool) {
	if limit <= 0 {
		return "", s != ""
	}
	start := len(strings.TrimSuffix(s, "\n"))
	for range limit {
		start = strings.LastIndexByte(s[:start], '\n')
		if start < 0 {
			return s, false
		}
	}
	return s[start+1:], true
}
