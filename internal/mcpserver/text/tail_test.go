package text

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

func TestTailKeepsTheNewest(t *testing.T) {
	tests := map[string]struct {
		in                 string
		maxLines, maxBytes int
		want               string
		cut                bool
	}{
		"all":                       {"a\nb\n", 5, 100, "a\nb\n", false},
		"nothing":                   {"", 5, 100, "", false},
		"exactly all lines":         {"a\nb\n", 2, 100, "a\nb\n", false},
		"exactly all bytes":         {"a\nb\n", 5, 4, "a\nb\n", false},
		"the last lines":            {"a\nb\nc\n", 2, 100, "b\nc\n", true},
		"without a last line break": {"a\nb\nc", 2, 100, "b\nc", true},
		"empty lines are lines":     {"a\n\n\n", 2, 100, "\n\n", true},
		"whole lines in the bytes":  {"aaaa\nbbbb\ncccc\n", 5, 7, "cccc\n", true},
		"a line that just fits":     {"aaaa\nbbbb\n", 5, 5, "bbbb\n", true},
		"one long line":             {"aaaa\nbbbbbbbb", 5, 4, "bbbb", true},
		"one long line with an end": {"bbbbbbbb\n", 5, 4, "bbb\n", true},
		"whole characters":          {"ääää", 5, 5, "ää", true},
		"a wide character":          {"x🚀🚀", 5, 7, "🚀", true},
		"no character fits":         {"🚀", 5, 3, "", true},
		"no lines":                  {"a", 0, 5, "", true},
		"no bytes":                  {"a", 5, 0, "", true},
		"negative":                  {"a", -1, -1, "", true},
		"nothing of nothing":        {"", 0, 0, "", false},
	}
	for name, tc := range tests {
		got, cut, err := Tail(strings.NewReader(tc.in), tc.maxLines, tc.maxBytes)
		if err != nil || got != tc.want || cut != tc.cut {
			t.Errorf("%s: %q, %v, %v; want %q, %v", name, got, cut, err, tc.want, tc.cut)
		}
	}
}

func TestTailGivesWhatItReadBeforeAnError(t *testing.T) {
	broken := errors.New("broken")
	got, cut, err := Tail(io.MultiReader(strings.NewReader("a\nb\n"), iotest.ErrReader(broken)), 5, 100)
	if got != "a\nb\n" || cut || !errors.Is(err, broken) {
		t.Errorf("%q, %v, %v", got, cut, err)
	}
}

// endless is a reader of many lines that are never all in memory.
type endless struct{ left int }

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), e.left)
	for i := range n {
		p[i] = 'x'
		if (e.left-i)%100 == 1 {
			p[i] = '\n'
		}
	}
	e.left -= n
	return n, nil
}

func TestTailTakesLittleMemory(t *testing.T) {
	const size, limit = 64 << 20, 64 << 10
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, cut, err := Tail(&endless{left: size}, 1000, limit)
	runtime.ReadMemStats(&after)
	if err != nil || !cut || len(got) == 0 || len(got) > limit {
		t.Fatalf("%d bytes, cut %v, %v", len(got), cut, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 16*limit {
		t.Errorf("%d bytes were allocated to keep %d", used, limit)
	}
}

// naiveTail is a simple implementation of Tail for a text in memory.
func naiveTail(s string, maxLines, maxBytes int) string {
	var lines []string
	for line := range strings.Lines(s) {
		lines = append(lines, line)
	}
	kept := ""
	for i := len(lines) - 1; i >= 0 && len(lines)-i <= maxLines && len(kept)+len(lines[i]) <= maxBytes; i-- {
		kept = lines[i] + kept
	}
	if kept != "" || maxLines <= 0 || len(lines) == 0 {
		return kept
	}
	last := lines[len(lines)-1]
	for i := len(last) - maxBytes; i < len(last); i++ {
		if utf8.RuneStart(last[i]) {
			return last[i:]
		}
	}
	return ""
}

func FuzzTail(f *testing.F) {
	f.Add("a\nb\n", 1, 3, 1)
	f.Add("ä🚀\n", 2, 2, 2)
	f.Fuzz(func(t *testing.T, s string, maxLines, maxBytes, piece int) {
		if !utf8.ValidString(s) || len(s) > 1<<12 {
			t.Skip()
		}
		maxLines, maxBytes = maxLines%64, max(maxBytes%256, 0)
		s = strings.Repeat(s, 1+max(piece%40, 0))
		var r io.Reader = strings.NewReader(s)
		if piece%2 == 0 {
			r = iotest.OneByteReader(r)
		}
		got, cut, err := Tail(r, maxLines, maxBytes)
		if want := naiveTail(s, maxLines, maxBytes); err != nil || got != want {
			t.Errorf("Tail(%q, %d, %d) = %q, %v; want %q", s, maxLines, maxBytes, got, err, want)
		}
		if cut != (got != s) {
			t.Errorf("Tail(%q, %d, %d) = %q says cut %v", s, maxLines, maxBytes, got, cut)
		}
	})
}
