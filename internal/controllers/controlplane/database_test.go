package controlplane

import "testing"

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
