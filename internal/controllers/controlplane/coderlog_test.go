package controlplane

import "testing"

// What coderd 2.30.0 wrote when it was run against a database that refuses it.
const (
	logRetrying = "Started HTTP listener at http://0.0.0.0:8080\n" +
		"WARN: The access URL  http://coder.coder.svc  could not be resolved\n\n" +
		"2026-11-20 12:24:44.379 [warn]  ping postgres: retrying  error=\"dial tcp 10.96.0.7:5432: connect: connection refused\"  try=1\n" +
		"2026-11-20 12:24:45.999 [warn]  ping postgres: retrying  error=\"dial tcp 10.96.0.7:5432: connect: connection refused\"  try=2\n"
	logEnded = logRetrying +
		"Encountered an error running \"coder server\", see \"coder server --help\" for more information\n" +
		"error: connect to postgres: connect to postgres: unable to connect after 11 tries; last error: dial tcp 10.96.0.7:5432: connect: connection refused\n"
)

func TestDatabaseCause(t *testing.T) {
	const refused = "dial tcp 10.96.0.7:5432: connect: connection refused"
	for name, c := range map[string]struct{ text, want string }{
		"still trying":            {logRetrying, refused},
		"ended, says the same":    {logEnded, refused},
		"nothing about databases": {"Started HTTP listener at http://0.0.0.0:8080\n", ""},
		"empty":                   {"", ""},
		"JSON": {`{"ts":"2026-11-20T12:24:44Z","level":"WARN","msg":"ping postgres: retrying","fields":{"error": "dial tcp: lookup db on 10.96.0.10:53: no such host","try":1}}`,
			"dial tcp: lookup db: no such host"},
		"wrong password": {`2026-11-20 12:24:44.379 [warn]  ping postgres: retrying  error="pq: password authentication failed for user \"coder\""  try=1`,
			`pq: password authentication failed for user "coder"`},
		"ephemeral ports are left out": {`[warn]  ping postgres: retrying  error="read tcp 10.0.0.5:41234->10.96.0.7:5432: i/o timeout"  try=1`,
			"read tcp 10.96.0.7:5432: i/o timeout"},
		"not a URL": {`error: connect to postgres: escaping postgres URL: invalid postgres url with userinfo: postgres://coder:hunter22`,
			"the address of the database is not a URL that Coder can read"},
		"too old": {"error: connect to postgres: connect to postgres: PostgreSQL version must be v13.0.0 or higher! Got: 120000",
			"PostgreSQL version must be v13.0.0 or higher! Got: 120000"},
	} {
		if got := databaseCause(c.text); got != c.want {
			t.Errorf("%s: cause is %q, want %q", name, got, c.want)
		}
	}
}

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
		if got := redact(c.text, values); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestInvalidName(t *testing.T) {
	long := "n123456789012345678901234567890123456789012345678901234567890123"
	for name, valid := range map[string]bool{
		"coder": true, "team-a": true, long[:63]: true, long: false, "a.b": false, "1st": false, "Upper": false,
	} {
		if got := invalidName(name) == ""; got != valid {
			t.Errorf("name %q: valid is %v, want %v", name, got, valid)
		}
	}
}
