package metadata

import (
	"regexp"
	"strings"
	"testing"
)

// TestVersionPart: a name in Coder and its id determine the name, and no two names have one.
func TestVersionPart(t *testing.T) {
	const id = "1a2b3c4d-0000-0000-0000-000000000001"
	valid, seen := regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`), map[string]string{}
	for name, want := range map[string]string{
		"v1":                                     "v1",
		"fix-bug-2":                              "fix-bug-2",
		"Fix_Bug.2":                              "fix-bug-2--1a2b3c4d",
		"fix_bug_2":                              "fix-bug-2--1a2b3c4d",
		"fix-bug.2":                              "fix-bug-2--1a2b3c4d",
		"V1":                                     "v1--1a2b3c4d",
		"1.0.0":                                  "1-0-0--1a2b3c4d",
		"2026-11-29":                             "2026-11-29",
		strings.Repeat("a", 63):                  strings.Repeat("a", 63),
		strings.Repeat("a", 64):                  strings.Repeat("a", 53) + "--1a2b3c4d",
		strings.Repeat("a", 52) + "-bc-defghijk": strings.Repeat("a", 52) + "--1a2b3c4d",
		// Coder accepts none of these.
		"":             "version--1a2b3c4d",
		"a--b":         "version--1a2b3c4d",
		"v1--1a2b3c4d": "version--1a2b3c4d",
		"../x":         "version--1a2b3c4d",
		"\u212aelvin":  "kelvin--1a2b3c4d",
		"a/b":          "version--1a2b3c4d",
		"-a":           "version--1a2b3c4d",
		"\x00":         "version--1a2b3c4d",
		"1a2b3c4d\n":   "version--1a2b3c4d",
	} {
		got := VersionPart(name, id)
		if got != want || !valid.MatchString(got) {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
		if other, ok := seen[VersionPart(name, "ffffffff"+id[8:])]; ok && !strings.Contains(got, "--") {
			t.Errorf("%q and %q have the same name %q", name, other, got)
		}
		if !strings.Contains(got, "--") {
			seen[got] = name
		}
	}
}
