package workload

import "testing"

func TestLastLine(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"the error":      {"a\nerror: flag provided but not defined: --nope\nb\n", "flag provided but not defined: --nope"},
		"no error":       {"2026-11-20 12:24:44.379 [info]  bye\n\n", "[info]  bye"},
		"with colours":   {"\x1b[31merror: bad\x1b[0m\n", "bad"},
		"nothing at all": {"", ""},
	} {
		if got := lastLine(c.text); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestRedact(t *testing.T) {
	values := withPasswords([]string{"postgres://coder:p%40ss-word@db:5432/coder", "hunter22", "off"})
	for name, c := range map[string]struct{ text, want string }{
		"URL":                     {"bad postgres://u:secret@db:5432/x here", "bad postgres://db:5432/x here"},
		"URL, password with @ /":  {"bad postgres://u:se@cr/et@db/x here", "bad postgres://db/x here"},
		"the value itself":        {"tried hunter22 twice", "tried [redacted] twice"},
		"the whole URL":           {"tried postgres://coder:p%40ss-word@db:5432/coder", "tried [redacted]"},
		"the password in it":      {"tried p%40ss-word", "tried [redacted]"},
		"the password, unescaped": {"tried p@ss-word", "tried [redacted]"},
		"key and value":           {"dsn host=db password=abc user=u", "dsn host=db password=[redacted] user=u"},
		"short values are words":  {"ssl is off", "ssl is off"},
		"nothing to hide":         {"dial tcp 10.0.0.1:5432: connection refused", "dial tcp 10.0.0.1:5432: connection refused"},
	} {
		if got := Redact(c.text, values...); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
