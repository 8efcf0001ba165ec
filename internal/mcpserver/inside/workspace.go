package inside

import (
	"bytes"
	"context"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilexec "k8s.io/utils/exec"

	"github.com/coder-k8s/coder-k8s/internal/kube/remoteexec"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

//go:embed scripts/*.sh
var scripts embed.FS

const (
	// role is the ClusterRole that grants the permission to run commands.
	role = "coder-k8s-workspace-access"
	// maxDetail is the maximum size of a script's standard error that is kept.
	maxDetail = 1 << 10
)

// Workspace is the workspace in which to work. Agent may be empty if there is only one
// agent.
type Workspace struct {
	Exec                   callers.Exec
	Namespace, Name, Agent string
}

// script is a sequence of script files with their arguments.
type script struct {
	names []string
	args  []string
	stdin io.Reader
}

// text returns the scripts without comments, because the audit log of Kubernetes contains
// them for each call.
func (s script) text() (string, error) {
	var b strings.Builder
	for _, name := range s.names {
		content, err := scripts.ReadFile("scripts/" + name + ".sh")
		if err != nil {
			return "", fmt.Errorf("bug: %w", err)
		}
		for line := range strings.Lines(string(content)) {
			if !strings.HasPrefix(line, "#") {
				b.WriteString(line)
			}
		}
	}
	return b.String(), nil
}

// run runs scripts and returns their exit code.
func (w Workspace) run(ctx context.Context, s script, stdout, stderr io.Writer) (code int, err error) {
	for _, arg := range s.args {
		if strings.ContainsRune(arg, 0) {
			return 0, toolset.UsageError("no argument may have a NUL character")
		}
	}
	text, err := s.text()
	if err != nil {
		return 0, err
	}
	args := append([]string{"sh", "-c", text, "sh"}, s.args...)
	if slices.Contains(s.names, "attend") {
		launch, err := script{names: []string{"launch"}}.text()
		if err != nil {
			return 0, err
		}
		args = append([]string{"sh", "-c", launch, "sh", text}, s.args...)
	}
	err = w.Exec(ctx, w.Namespace, w.Name, w.Agent, remoteexec.Command{
		Args: args, Stdin: s.stdin, Stdout: stdout, Stderr: stderr,
	})
	var exit utilexec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitStatus(), nil
	}
	return 0, w.failure(ctx, err)
}

// failure returns the error for a script that could not be run, or whose result is unknown.
func (w Workspace) failure(ctx context.Context, err error) error {
	var status apierrors.APIStatus
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case apierrors.IsConflict(err), apierrors.IsBadRequest(err):
		return toolset.Refuse(toolset.OutcomeConflict, fmt.Sprintf("cannot open a session in workspace %s: %s", w.Name, toolset.Message(err)))
	case errors.As(err, &status):
		return &toolset.CallError{
			Verb: "create", Resource: "coderworkspaces/exec.aggregation.coder.com", Namespace: w.Namespace, Name: w.Name, Err: err, Role: role,
		}
	}
	return toolset.Refuse(toolset.OutcomeUnavailable, fmt.Sprintf(
		"the connection to workspace %s was lost, so the result is not known: check the result before you try again (%v)", w.Name, err))
}

// fileScript runs a script that operates on a path and returns its output, at most limit
// bytes.
func (w Workspace) fileScript(ctx context.Context, path string, s script, limit int64) ([]byte, error) {
	stdout, stderr := &limited{most: limit}, &limited{most: maxDetail}
	code, err := w.run(ctx, s, stdout, stderr)
	if err != nil {
		return nil, err
	}
	return stdout.bytes(), w.problem(path, code, stderr)
}

// problems are the errors by the exit codes of the scripts. The texts may contain %[1]q, which
// is the path or the ID, and %[2]s, which is the workspace.
var problems = map[int]struct{ outcome, text string }{
	100: {toolset.OutcomeNotFound, "there is no %[1]q in workspace %[2]s, or it is in a directory that the workspace's user may not enter; list_workspace_files shows what there is"},
	101: {toolset.OutcomeInvalid, "%[1]q is a directory; list_workspace_files lists it"},
	102: {toolset.OutcomeInvalid, "%[1]q is not a regular file but a device, a pipe or a socket"},
	103: {toolset.OutcomeDenied, "the workspace's user has no permission for that on %[1]q: check its owner and mode"},
	104: {toolset.OutcomeError, "that failed in workspace %[2]s"},
	105: {toolset.OutcomeConflict, "%[1]q was changed in the meantime, and nothing was written; read it again"},
	106: {toolset.OutcomeUnavailable, "not all of the content arrived, and %[1]q is unchanged; call again"},
	107: {toolset.OutcomeInvalid, "%[1]q is not a directory"},
	108: {toolset.OutcomeNotFound, "workspace %[2]s has no background command %[1]q: it was started in another workspace, by another agent, or long ago"},
	127: {toolset.OutcomeUnavailable, "workspace %[2]s lacks a program that this needs: sh and coreutils or BusyBox must be in its image"},
}

// problem returns the error for an exit code of a script.
func (w Workspace) problem(path string, code int, stderr *limited) error {
	if code == 0 {
		return nil
	}
	found, known := problems[code]
	if !known {
		return toolset.Refuse(toolset.OutcomeError, fmt.Sprintf("that failed in workspace %s with exit code %d", w.Name, code)+detail(stderr))
	}
	return toolset.Refuse(found.outcome, fmt.Sprintf(found.text, path, w.Name)+detail(stderr))
}

func detail(stderr *limited) string {
	said := bytes.TrimSpace(stderr.bytes())
	if len(said) == 0 {
		return ""
	}
	return fmt.Sprintf(" (it says: %s)", said)
}

// maxPortBytes limits the size of the connection table that is read.
const maxPortBytes = 1 << 20

// listening is the state of a listening socket in /proc/net/tcp.
const listening = "0A"

// Ports returns the addresses on which programs of the workspace listen for TCP, sorted.
func (w Workspace) Ports(ctx context.Context) ([]netip.AddrPort, error) {
	out, err := w.fileScript(ctx, "/proc/net/tcp", script{names: []string{"ports"}}, maxPortBytes)
	if err != nil {
		return nil, err
	}
	var ports []netip.AddrPort
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[3] != listening {
			continue
		}
		if port, ok := parseAddress(fields[1]); ok && !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	slices.SortFunc(ports, func(a, b netip.AddrPort) int {
		if a.Port() != b.Port() {
			return int(a.Port()) - int(b.Port())
		}
		return a.Addr().Compare(b.Addr())
	})
	return ports, nil
}

// parseAddress parses an address in the format of /proc/net/tcp: 32-bit words in host byte
// order, which is little-endian on all platforms that Coder's agent supports.
func parseAddress(s string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(s, ":")
	address, hostErr := hex.DecodeString(host)
	number, portErr := strconv.ParseUint(port, 16, 16)
	if hostErr != nil || portErr != nil || len(address)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for word := range slices.Chunk(address, 4) {
		slices.Reverse(word)
	}
	parsed, ok := netip.AddrFromSlice(address)
	return netip.AddrPortFrom(parsed.Unmap(), uint16(number)), ok
}
