package workload

import (
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

func TestRedact(t *testing.T) {
	var redactor redaction.Redactor
	for _, value := range []string{"postgres://coder:p%40ss-word@db:5432/coder", "hunter22", "off"} {
		redactor.Learn(value)
	}
	for name, c := range map[string]struct{ text, want string }{
		"URL":                     {"bad postgres://u:secret@db:5432/x here", "bad postgres://[redacted]@db:5432/x here"},
		"URL, password with @ /":  {"bad postgres://u:se@cr/et@db/x here", "bad postgres://[redacted]@db/x here"},
		"the value itself":        {"tried hunter22 twice", "tried [redacted] twice"},
		"the whole URL":           {"tried postgres://coder:p%40ss-word@db:5432/coder", "tried [redacted]"},
		"the password in it":      {"tried p%40ss-word", "tried [redacted]"},
		"the password, unescaped": {"tried p@ss-word", "tried [redacted]"},
		"key and value":           {"dsn host=db password=abc user=u", "dsn host=db password=[redacted] user=u"},
		"short values are words":  {"ssl is off", "ssl is off"},
		"nothing to hide":         {"dial tcp 10.0.0.1:5432: connection refused", "dial tcp 10.0.0.1:5432: connection refused"},
	} {
		if got := redactor.Quote(c.text, longestQuote); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
