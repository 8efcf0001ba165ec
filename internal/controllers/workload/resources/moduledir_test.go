package resources

import (
	"os/exec"
	"strings"
	"testing"
)

// moduleDir returns the directory with the sources of a dependency. They contain the CRDs of its
// kinds.
func moduleDir(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatalf("asking for the sources of %s: %v", module, err)
	}
	return strings.TrimSpace(string(out))
}
