package text

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// chunk is the size of a read, in bytes.
const chunk = 32 << 10

// Tail reads r to its end and keeps the newest lines: at most maxLines lines and maxBytes
// bytes. cut reports whether something was left out. Nothing is kept if maxLines or
// maxBytes is not positive.
//
// It uses about 2*maxBytes of memory, however long r is. The error is that of r; the text
// before the error is returned too.
func Tail(r io.Reader, maxLines, maxBytes int) (kept string, cut bool, err error) {
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
