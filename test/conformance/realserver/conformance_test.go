//go:build conformance

package realserver

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	// The revisions of the protocol: with a handshake, and without.
	legacy = "2025-11-25"
	modern = "2026-07-28"
)

// runTime bounds each run of a suite or client. The longest takes some seconds, and that
// of a module of its own is compiled first.
const runTime = 5 * time.Minute

// TestRealServer starts the server once for all clients.
func TestRealServer(t *testing.T) {
	node := newNode(t)
	s := newFixture(t)
	s.keepBuilding(t)
	s.settles(t)
	t.Run("OfficialSuite", s.officialSuite)
	t.Run("Inspector", func(t *testing.T) { s.inspector(t, node) })
	t.Run("TypeScript", func(t *testing.T) { s.typeScript(t, node) })
	t.Run("Go", s.mcpGo)
}

// officialSuite runs the suite as test/conformance/run.sh does with the fixtures. Tests that
// need the fixtures are in the files of expected failures; the suite fails if any other
// test fails, and if one of those passes.
func (s *fixture) officialSuite(t *testing.T) {
	wanted := map[string]string{legacy: "8/30", modern: "11/37"}
	for _, revision := range []string{modern, legacy} {
		t.Run(revision, func(t *testing.T) {
			want := wanted[revision]
			name := "real-" + revision
			out, err := command(t, "../../../test/conformance/official.sh",
				name, withToken(t, s.server.mcpURL, s.token), revision, want, filepath.Join("realserver", name+".yml")).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Log(strings.TrimSpace(string(out)))
		})
	}
}

// mcpGo runs a third-party client, in a separate module.
func (s *fixture) mcpGo(t *testing.T) {
	w := s.newWorkspaces(t, "mcpgo")
	command := command(t, "go", "test", "-tags", "conformance", "-count=1", "-v", ".")
	command.Dir = "../../peers/mcpgo"
	command.Env = append(command.Environ(), s.environment(t, w)...)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%d tests of mcp-go passed", bytes.Count(out, []byte("--- PASS")))
}

// tally counts tests.
type tally struct{ passed, all int }

func (c *tally) run(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	c.all++
	if t.Run(name, test) {
		c.passed++
	}
}

func (c tally) String() string { return fmt.Sprintf("%d of %d", c.passed, c.all) }

// command returns a command that is killed at its time limit or when the test ends.
func command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runTime)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, name, args...)
	// Its child processes may keep its output open.
	c.WaitDelay = time.Second
	return c
}

// setting returns a variable that test/conformance/run.sh sets in the environment.
func setting(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set: call make conformance", name)
	}
	return value
}
