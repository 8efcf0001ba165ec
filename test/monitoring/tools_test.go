package monitoring

import (
	"os"
	"path/filepath"
	"testing"
)

// tool returns the path of a program that hack/monitoring/build.sh built.
func tool(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(os.Getenv("TOOLS_DIR"), name)
	if _, err := os.Stat(path); os.Getenv("TOOLS_DIR") == "" || err != nil {
		t.Skipf("$TOOLS_DIR has no %s: hack/monitoring/build.sh builds it", name)
	}
	return path
}
