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

func TestInvalidName(t *testing.T) {
	long := "n123456789012345678901234567890123456789012345678901234567890123"
	for name, valid := range map[string]bool{
		"coder": true, "team-a": true, long[:63]: true, long: false, "a.b": false, "1st": false, "Upper": false,
	} {
		cp := newControlPlane()
		cp.Name = name
		if got := invalidName(cp) == ""; got != valid {
			t.Errorf("name %q: valid is %v, want %v", name, got, valid)
		}
	}
}
