package podproblem

import "testing"

func TestLastLine(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"the error":      {"a\nerror: flag provided but not defined: --nope\nb\n", "flag provided but not defined: --nope"},
		"no error":       {"2026-11-20 12:24:44.379 [info]  bye\n\n", "[info]  bye"},
		"with colours":   {"\x1b[31merror: bad\x1b[0m\n", "bad"},
		"nothing at all": {"", ""},
	} {
		if got := LastLine(c.text); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
