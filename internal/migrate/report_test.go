package migrate

import (
	"strings"
	"testing"
)

// Names from untrusted values neither control the terminal nor run anything when a user runs the
// commands of the report.
func TestNamesOfStrangers(t *testing.T) {
	r := &Report{
		Object: "CoderControlPlane team/coder", Source: "values.yaml",
		Entries:   []Entry{{Value: "coder.\x1b]0;owned\a", Where: Position{File: "values.yaml", Line: 1}, Outcome: Secret, Note: "one\n## two"}},
		Namespace: "team", Secret: "coder-env", Keys: []string{"TOKEN", "$(touch owned)", "it's; touch owned"},
	}
	var out strings.Builder
	if err := r.Write(&out); err != nil {
		t.Fatal(err)
	}
	for _, evil := range []string{"\x1b", "\a", "\n## two"} {
		if strings.Contains(out.String(), evil) {
			t.Errorf("the report has %q:\n%s", evil, out.String())
		}
	}
	const want = `kubectl -n team create secret generic coder-env --from-file=TOKEN '--from-file=$(touch owned)' '--from-file=it'\''s; touch owned'`
	if !strings.Contains(out.String(), want+"\n") {
		t.Errorf("the report has not %s:\n%s", want, out.String())
	}
}
