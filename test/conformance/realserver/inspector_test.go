//go:build conformance

package realserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The exit codes of the inspector.
const (
	authRequired = 3
	toolError    = 5
)

// inspector runs the command line of the inspector, with each of its methods to
// determine the server's protocol.
func (s *fixture) inspector(t *testing.T, n node) {
	workspace := s.newWorkspaces(t, "inspector").Running
	arguments := fmt.Sprintf(`{"namespace":%q,"name":%q}`, namespace, workspace)
	call := func(tool, arguments string) []string {
		return []string{"--method", "tools/call", "--tool-name", tool, "--tool-args-json", arguments}
	}
	named := map[string][]string{
		"list_workspaces":    call("list_workspaces", fmt.Sprintf(`{"namespace":%q}`, namespace)),
		"get_workspace":      call("get_workspace", arguments),
		"diagnose_workspace": call("diagnose_workspace", arguments),
		"prompt":             {"--method", "prompts/get", "--prompt-name", "diagnose_workspace", "--prompt-args", "namespace=" + namespace, "name=" + workspace},
	}
	var calls tally
	for _, protocol := range []string{"legacy", "modern", "auto"} {
		protocol := func(args ...string) []string { return append(slices.Clone(args), "--protocol-era", protocol) }
		t.Run(protocol()[1], func(t *testing.T) {
			calls.run(t, "tools", func(t *testing.T) { s.strictTools(t, n, protocol()) })
			for name, args := range named {
				calls.run(t, name, func(t *testing.T) {
					out := s.inspect(t, n, 0, s.token, protocol(args...))
					if !strings.Contains(out.stdout, workspace) {
						t.Errorf("the answer does not name %s:\n%s%s", workspace, out.stdout, out.stderr)
					}
				})
			}
			calls.run(t, "error", func(t *testing.T) {
				s.inspect(t, n, toolError, s.token, protocol(call("get_workspace", `{"namespace":"team","name":"coder.admin.nobody"}`)...))
			})
			calls.run(t, "no token", func(t *testing.T) { s.inspect(t, n, authRequired, "", protocol("--method", "tools/list")) })
		})
	}
	t.Logf("%s calls of the inspector passed", calls)
}

// strictTools lists the tools with the inspector's strict checks for constructs
// that some clients do not support.
func (s *fixture) strictTools(t *testing.T, n node, protocol []string) {
	t.Helper()
	out := s.inspect(t, n, 0, s.token, append([]string{"--method", "tools/list", "--strict"}, protocol...))
	var answer struct {
		Result struct{ Tools []json.RawMessage }
	}
	if err := json.Unmarshal([]byte(out.stdout), &answer); err != nil || len(answer.Result.Tools) != tools {
		t.Errorf("there are %d tools, want %d (%v)", len(answer.Result.Tools), tools, err)
	}
	if out.stderr != "" {
		t.Errorf("the inspector warns: %s", out.stderr)
	}
}

type output struct{ stdout, stderr string }

// inspect runs the inspector, which must end with an exit code. It has a separate
// home directory and does not ask for a login.
func (s *fixture) inspect(t *testing.T, n node, code int, token string, args []string) output {
	t.Helper()
	script := filepath.Join(n.packages, "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js")
	args = append([]string{"--cli", s.server.mcpURL, "--transport", "http", "--format", "json", "--stored-auth-only"}, args...)
	if token != "" {
		args = append(args, "--header", "Authorization: Bearer "+token)
	}
	command := n.command(t, script, args...)
	command.Env = append(os.Environ(), "HOME="+t.TempDir())
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if got := command.ProcessState.ExitCode(); got != code {
		t.Errorf("the inspector ends with %d, want %d:\n%s%s", got, code, &stdout, &stderr)
	}
	return output{stdout.String(), stderr.String()}
}
