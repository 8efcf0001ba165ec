package redaction

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTruncate(t *testing.T) {
	for name, c := range map[string]struct {
		in    string
		limit int
		want  string
	}{
		"short":                  {"abc", 3, "abc"},
		"long":                   {"abcdefgh", 6, "abc…"},
		"inside a character":     {"aäöü", 6, "aä…"},
		"inside a long one":      {"a\U0001F600\U0001F600", 8, "a\U0001F600…"},
		"no room for more":       {"äöü", 3, "…"},
		"no room at all":         {"äöü", 1, ""},
		"nothing":                {"", 0, ""},
		"limit of zero":          {"a", 0, ""},
		"invalid and short":      {"a\xffb", 10, "ab"},
		"ends inside a rune":     {"a\xc3", 10, "a"},
		"invalid where it's cut": {"ab\xff\xff\xff\xff\xff\xff", 6, "ab…"},
	} {
		if got := Truncate(c.in, c.limit); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func FuzzTruncate(f *testing.F) {
	f.Add("aäöü\U0001F600", 5)
	f.Add("a\xff\xc3", 2)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = max(0, limit)
		got := Truncate(s, limit)
		if !utf8.ValidString(got) || len(got) > limit {
			t.Fatalf("String(%q, %d) is %q", s, limit, got)
		}
		if kept := strings.TrimSuffix(got, Ellipsis); utf8.ValidString(s) && !strings.HasPrefix(s, kept) {
			t.Fatalf("String(%q, %d) is %q, which is not how it begins", s, limit, got)
		}
	})
}
