package toolset

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"
	"unicode/utf8"
)

// Invisible characters inside of a secret do not prevent its redaction.
func TestHiddenSecretsAreReplaced(t *testing.T) {
	for in, want := range map[string]string{
		"pass\x1b[31mword=hunter\x1b[0m": "password=[redacted]",
		"pass\u200bword=hunter":          "password=[redacted]",
		"password=\u202ehunter":          "password=[redacted]",
		"-----BEGIN \x1b[1mPRIVATE\x1b[0m KEY-----\r\nMIIE\r\n-----END PRIVATE KEY-----\r\n": "[redacted]\n",
	} {
		if got := CleanText(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestTextIsReadable(t *testing.T) {
	tests := map[string]string{
		"\x1b[1;31mred\x1b[0m \x1b[38;5;4mblue\x1b[K":            "red blue",
		"\x1b]0;title\aa\x1b]8;;http://x\x1b\\link":              "alink",
		"\u009b31mred \u009d0;title\u009cb":                      "red b",
		"\x1bPdcs\x1b\\a \x1b_apc\x1b\\b \x1b^pm\x1b\\":          "a b ",
		"\x1b]0;no end\nnext":                                    "0;no end\nnext",
		"\x1b]0;no end":                                          "0;no end",
		"\x1b(Bascii \x1bMup \x1b":                               "ascii up ",
		"\x1b[31":                                                "",
		"a\r\nb\rc\u2028d\u2029e\u0085f":                         "a\nb\nc\nd\ne\nf",
		"bell\a nul\x00 del\x7f back\b":                          "bell nul del back",
		"bidi\u202e zero\u200b\ufeff tag\U000e0041 vs\U000e0101": "bidi zero tag vs",
		"bad\xff\xfe utf8\xc3":                                   "bad\ufffd utf8\ufffd",
		"tab\tstays":                                             "tab\tstays",
	}
	for in, want := range tests {
		if got := CleanText(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestWholeCharacters(t *testing.T) {
	for cut, want := range map[string]string{"": "", "ab": "ab", "ä": "ä", "a\xc3": "a", "a\xe2\x82": "a", "a\xff": "a\xff", "\x80\x80\x80\x80\x80": "\x80\x80\x80\x80\x80"} {
		if got := string(WholeCharacters([]byte(cut))); got != want {
			t.Errorf("%q is cut to %q, want %q", cut, got, want)
		}
	}
}

const sampleJWT = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6YSJ9.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"

func FuzzClean(f *testing.F) {
	for _, part := range []string{"\x1b", "\x1b]", "\x1b[", "\u009d", "\x1b[3", "\r", "\xff", "token=", "://a:"} {
		f.Add(strings.Repeat(part, 20))
	}
	f.Add("a\n" + sampleJWT + "\npassword=\"x\" postgres://a:b@c")
	f.Fuzz(func(t *testing.T, s string) {
		got := CleanText(s + "\n" + sampleJWT + "\n")
		if !utf8.ValidString(got) {
			t.Errorf("%q is not UTF-8", got)
		}
		for _, r := range got {
			if r != '\n' && r != '\t' && unicode.IsControl(r) {
				t.Errorf("%q holds %q", got, r)
			}
		}
		if strings.Contains(got, sampleJWT) {
			t.Errorf("%q holds the token", got)
		}
		if len(got) > 12*(len(s)+len(sampleJWT)+2) {
			t.Errorf("%d bytes became %d", len(s), len(got))
		}
	})
}

// BenchmarkClean cleans 64 KiB of a typical log.
func BenchmarkClean(b *testing.B) {
	line := `2026-11-21 17:56:34.123 [info]  coderd: GET  host=coder.example.com  path=/api/v2/workspaces  proto=HTTP/1.1  remote_addr=10.0.0.7  status_code=200  latency_ms=3  request_id=0f8fad5b-d9cb-469f-a165-70867728950e` + "\n"
	s := strings.Repeat(line, 64<<10/len(line))
	b.SetBytes(int64(len(s)))
	for b.Loop() {
		CleanText(s)
	}
}

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
		got, cut, err := ReadTail(strings.NewReader(tc.in), tc.maxLines, tc.maxBytes)
		if err != nil || got != tc.want || cut != tc.cut {
			t.Errorf("%s: %q, %v, %v; want %q, %v", name, got, cut, err, tc.want, tc.cut)
		}
	}
}

func TestTailGivesWhatItReadBeforeAnError(t *testing.T) {
	broken := errors.New("broken")
	got, cut, err := ReadTail(io.MultiReader(strings.NewReader("a\nb\n"), iotest.ErrReader(broken)), 5, 100)
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
	got, cut, err := ReadTail(&endless{left: size}, 1000, limit)
	runtime.ReadMemStats(&after)
	if err != nil || !cut || len(got) == 0 || len(got) > limit {
		t.Fatalf("%d bytes, cut %v, %v", len(got), cut, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 16*limit {
		t.Errorf("%d bytes were allocated to keep %d", used, limit)
	}
}

// naiveTail is a simple implementation of ReadTail for a text in memory.
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
		got, cut, err := ReadTail(r, maxLines, maxBytes)
		if want := naiveTail(s, maxLines, maxBytes); err != nil || got != want {
			t.Errorf("Tail(%q, %d, %d) = %q, %v; want %q", s, maxLines, maxBytes, got, err, want)
		}
		if cut != (got != s) {
			t.Errorf("Tail(%q, %d, %d) = %q says cut %v", s, maxLines, maxBytes, got, cut)
		}
	})
}
