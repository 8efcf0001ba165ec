package podproblem

import (
	"strings"
	"testing"
)

// Logs of coderd 2.30.0 with a database that refuses connections.
const (
	logRetrying = "Started HTTP listener at http://0.0.0.0:8080\n" +
		"WARN: The access URL  http://coder.coder.svc  could not be resolved\n\n" +
		"2026-11-20 12:24:44.379 [warn]  ping postgres: retrying  error=\"dial tcp 10.96.0.7:5432: connect: connection refused\"  try=1\n" +
		"2026-11-20 12:24:45.999 [warn]  ping postgres: retrying  error=\"dial tcp 10.96.0.7:5432: connect: connection refused\"  try=2\n"
	logEnded = logRetrying +
		"Encountered an error running \"coder server\", see \"coder server --help\" for more information\n" +
		"error: connect to postgres: connect to postgres: unable to connect after 11 tries; last error: dial tcp 10.96.0.7:5432: connect: connection refused\n"
)

// Log of coderd 2.30.0 on a database of 2.36.1.
const logNewerSchema = "Encountered an error running \"coder server\", see \"coder server --help\" for more information\n" +
	"error: connect to postgres: connect to postgres: migrate up: up: 1 error occurred:\n" +
	"\t* no migration found for version 556: read down for version 556 .: file does not exist\n\n\n"

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
			"Coder cannot parse the connection URL of the database"},
		"too old": {"error: connect to postgres: connect to postgres: PostgreSQL version must be v13.0.0 or higher! Got: 120000",
			"PostgreSQL version must be v13.0.0 or higher! Got: 120000"},
	} {
		if got := causeOf(c.text); got != c.want {
			t.Errorf("%s: cause is %q, want %q", name, got, c.want)
		}
	}
}

func causeOf(log string) string {
	if found := FindDatabase(log); found != nil {
		return found.Cause
	}
	return ""
}

// The messages are those of coderd 2.30.0, its driver and PostgreSQL.
func TestUnusableDatabase(t *testing.T) {
	retry := func(cause string) string {
		return "Started HTTP listener at http://0.0.0.0:8080\n2026-11-20 12:24:44.379 [warn]  ping postgres: retrying  error=\"" + cause + "\"  try=1\n"
	}
	for name, c := range map[string]struct{ words, what string }{
		"refused":      {retry("dial tcp 10.96.0.7:5432: connect: connection refused"), "no server listens"},
		"no name":      {retry("dial tcp: lookup db on 10.96.0.10:53: no such host"), "does not resolve"},
		"timeout":      {retry("dial tcp 10.96.0.7:5432: i/o timeout"), "does not respond"},
		"password":     {retry(`pq: password authentication failed for user \"coder\"`), "refuses the user or the password"},
		"no TLS":       {retry("pq: SSL is not enabled on the server"), "does not support TLS"},
		"certificate":  {retry("tls: failed to verify certificate: x509: certificate signed by unknown authority"), "the TLS connection to the database fails"},
		"pg_hba":       {retry(`pq: no pg_hba.conf entry for host \"10.0.0.9\", user \"coder\", database \"coder\", no encryption`), "pg_hba.conf"},
		"no database":  {retry(`pq: database \"coder\" does not exist`), "no database of that name"},
		"no role":      {retry(`pq: role \"coder\" does not exist`), "no user of that name"},
		"full":         {retry("pq: sorry, too many clients already"), "accepts no more connections"},
		"starting":     {retry("pq: the database system is starting up"), "starting or shutting down"},
		"no right":     {"error: connect to postgres: migrate up: pq: permission denied for schema public", "lacks permissions that Coder needs"},
		"not a URL":    {"error: connect to postgres: escaping postgres URL: invalid postgres url with userinfo: [redacted]", "cannot parse the connection URL"},
		"too old":      {"error: connect to postgres: connect to postgres: PostgreSQL version must be v13.0.0 or higher! Got: 120000", "too old"},
		"dirty":        {"error: connect to postgres: migrate up: up: Dirty database version 320. Fix and force version.", "database schema"},
		"newer schema": {logNewerSchema, "a newer Coder has migrated the database (migration 556)"},
		"newer, one line": {"error: connect to postgres: connect to postgres: migrate up: up: no migration found for version 556: read down for version 556 .: file does not exist",
			"a newer Coder has migrated the database (migration 556)"},
		"in JSON":        {`{"ts":"2026-11-20T12:24:44Z","level":"WARN","msg":"ping postgres: retrying","fields":{"error":"dial tcp 10.0.0.1:5432: connect: connection refused","try":1}}`, "no server listens"},
		"found after":    {retry("dial tcp 10.96.0.7:5432: connect: connection refused") + "error: configure oidc provider: dial tcp: lookup idp: no such host", ""},
		"not an error":   {"[info] request  path=\"/no migration found for version 5\"", ""},
		"something else": {"dial tcp 10.0.0.1:443: connect: connection refused", ""},
		"nothing":        {"", ""},
	} {
		found := FindDatabase(c.words)
		if (found != nil) != (c.what != "") || found != nil && !strings.Contains(found.What, c.what) {
			t.Errorf("%s: %+v, want %q", name, found, c.what)
		}
		if found != nil && (found.Line == "" || found.Do == "") {
			t.Errorf("%s: the line is %q, what to do %q", name, found.Line, found.Do)
		}
	}
}

func FuzzFindDatabase(f *testing.F) {
	f.Add(logEnded)
	f.Add("error: \nerror: postgres tls: ")
	f.Fuzz(func(t *testing.T, words string) {
		if terminalColour.MatchString(words) {
			return
		}
		if found := FindDatabase(words); found != nil && !strings.Contains(words, found.Line) {
			t.Errorf("the line %q is not in the words", found.Line)
		}
		if line := LastLine(words); !strings.Contains(words, line) {
			t.Errorf("the last line %q is not in the words", line)
		}
	})
}

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
