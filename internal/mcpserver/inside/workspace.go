package inside

import (
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"

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
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitStatus(), nil
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case apierrors.IsConflict(err), apierrors.IsBadRequest(err):
		return 0, toolset.Refuse(toolset.OutcomeConflict, fmt.Sprintf("cannot open a session in workspace %s: %s", w.Name, toolset.Message(err)))
	case errors.As(err, &status):
		return 0, &toolset.CallError{
			Verb: "create", Resource: "coderworkspaces/exec.aggregation.coder.com", Namespace: w.Namespace, Name: w.Name, Err: err, Role: role,
		}
	}
	return 0, toolset.Refuse(toolset.OutcomeUnavailable, fmt.Sprintf(
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
	detail := ""
	if said := bytes.TrimSpace(stderr.bytes()); len(said) > 0 {
		detail = fmt.Sprintf(" (it says: %s)", said)
	}
	found, known := problems[code]
	if !known {
		return toolset.Refuse(toolset.OutcomeError, fmt.Sprintf("that failed in workspace %s with exit code %d", w.Name, code)+detail)
	}
	return toolset.Refuse(found.outcome, fmt.Sprintf(found.text, path, w.Name)+detail)
}

const (
	// maxPortBytes limits the size of the connection table that is read.
	maxPortBytes = 1 << 20
	// listening is the state of a listening socket in /proc/net/tcp.
	listening = "0A"
)

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

const (
	// MaxFileBytes is the size of the largest file that can be written or edited. Larger
	// files have no version.
	MaxFileBytes = 1 << 20
	// maxListBytes limits the output of the list script.
	maxListBytes = 2 << 20
	// maxHeader is the maximum size of the header that a script prints before the content.
	maxHeader = 256
)

// Range is a part of a file. First counts from 1.
type Range struct {
	// Lines reports that First and Count are lines, and not bytes.
	Lines        bool
	First, Count int64
	// MaxBytes is an additional limit on the size of the part.
	MaxBytes int64
}

// Content is a part of a file.
type Content struct {
	Data []byte
	// Size is the size of the whole file.
	Size int64
	// Version is a checksum of the file's content. It is empty for a large file.
	Version string
}

// Read reads a part of a file.
func (w Workspace) Read(ctx context.Context, path string, r Range) (Content, error) {
	if path == "" {
		return Content{}, toolset.UsageError("path is required")
	}
	unit := "bytes"
	if r.Lines {
		unit = "lines"
	}
	out, err := w.fileScript(ctx, path, script{names: []string{"file", "read"}, args: []string{
		path, unit, strconv.FormatInt(r.First, 10), strconv.FormatInt(r.Count, 10), strconv.FormatInt(r.MaxBytes, 10), strconv.Itoa(MaxFileBytes),
	}}, r.MaxBytes+maxHeader)
	if err != nil {
		return Content{}, err
	}
	header, data, ok := bytes.Cut(out, []byte("\n"))
	size, version, _ := strings.Cut(string(header), " ")
	c := Content{Data: data, Version: version}
	if c.Size, err = strconv.ParseInt(strings.TrimSpace(size), 10, 64); err != nil || !ok {
		return Content{}, w.unexpected(header)
	}
	return c, nil
}

// unexpected returns the error for a script that printed unexpected output.
func (w Workspace) unexpected(said []byte) error {
	return toolset.Refuse(toolset.OutcomeError, fmt.Sprintf(
		"the shell of workspace %s printed unexpected output, for example because its start-up files print text: %q", w.Name, said[:min(len(said), maxHeader)]))
}

// Part is a part of a file for the answer, cut at lines or at characters.
type Part struct {
	Data   []byte
	Binary bool
	// More reports that the file continues, at NextLine or NextByte.
	More               bool
	NextLine, NextByte int64
	// CutLine is the number of a line whose rest is left out, because it alone exceeds the
	// limit.
	CutLine int64
}

// Part returns the content for the answer: at most lines lines and most bytes. r is the
// range of the content, which includes one line and one byte more, to detect that the file
// continues.
func (c Content) Part(r Range, lines, most int) Part {
	data := c.Data
	p := Part{More: len(data) > most}
	data = data[:min(len(data), most)]
	if !r.Lines {
		// A range of bytes may start or end within a character.
		p.Data = toolset.WholeCharacters(toolset.FromCharacter(data))
		p.Binary = isBinary(p.Data)
		if p.More {
			p.NextByte = r.First + int64(len(data)) - int64(len(data)-len(toolset.WholeCharacters(data)))
		}
		return p
	}
	if count, end := countLines(data, lines); count == lines && end < len(c.Data) {
		data, p.More = data[:end], true
	} else if last := bytes.LastIndexByte(data, '\n'); p.More && last >= 0 {
		data = data[:last+1]
	}
	if p.More {
		p.NextLine = r.First + int64(bytes.Count(data, []byte("\n")))
		if p.NextLine == r.First {
			// Continue with the next line.
			p.CutLine = r.First
			p.NextLine++
			data = toolset.WholeCharacters(data)
		}
	}
	p.Data, p.Binary = data, isBinary(data)
	return p
}

// countLines returns the number of complete lines in data, at most most, and the offset of
// their end.
func countLines(data []byte, most int) (count, end int) {
	for count < most {
		i := bytes.IndexByte(data[end:], '\n')
		if i < 0 {
			return count, end
		}
		count, end = count+1, end+i+1
	}
	return count, end
}

// Write replaces the content of a file, or creates the file. If version is not empty, the
// file must still have that version.
func (w Workspace) Write(ctx context.Context, path string, content []byte, version string) error {
	switch {
	case path == "":
		return toolset.UsageError("path is required")
	case strings.HasSuffix(path, "/"):
		return toolset.UsageError(fmt.Sprintf("%q is a directory; give the path of a file", path))
	case len(content) > MaxFileBytes:
		return toolset.UsageError(fmt.Sprintf("the content has %d bytes and may have %d; write it in parts, or make it with a command", len(content), MaxFileBytes))
	}
	_, err := w.fileScript(ctx, path, script{
		names: []string{"file", "write"},
		args:  []string{path, strconv.Itoa(len(content)), version, ".coder-k8s." + rand.Text()},
		stdin: bytes.NewReader(content),
	}, maxHeader)
	return err
}

// Edit is a replacement in a file.
type Edit struct {
	Old, New string
	// All replaces all occurrences. Otherwise there must be exactly one.
	All bool
	// Version is the required version of the file, if not empty.
	Version string
}

// Edited is the result of an edit.
type Edited struct {
	Content []byte
	// Version is the version of the file before the edit.
	Version string
	// Count is the number of replaced occurrences.
	Count int
}

// Apply reads a file and returns its content after the edit. It does not write the file.
func (w Workspace) Apply(ctx context.Context, path string, e Edit) (Edited, error) {
	switch e.Old {
	case "":
		return Edited{}, toolset.UsageError("oldText is required; write_workspace_file makes a new file")
	case e.New:
		return Edited{}, toolset.UsageError("oldText and newText are the same")
	}
	c, err := w.Read(ctx, path, Range{First: 1, Count: MaxFileBytes + 1, MaxBytes: MaxFileBytes + 1})
	switch {
	case err != nil:
		return Edited{}, err
	case c.Size > MaxFileBytes || int64(len(c.Data)) != c.Size:
		return Edited{}, toolset.UsageError(fmt.Sprintf("%q has %d bytes, or is being changed; at most %d can be edited: use a command, for example sed", path, c.Size, MaxFileBytes))
	case bytes.IndexByte(c.Data, 0) >= 0:
		return Edited{}, toolset.UsageError(fmt.Sprintf("%q is binary and cannot be edited", path))
	case e.Version != "" && e.Version != c.Version:
		return Edited{}, toolset.Refuse(toolset.OutcomeConflict, fmt.Sprintf("%q has changed since it had version %q, and nothing was written; read it again", path, e.Version))
	}
	count := bytes.Count(c.Data, []byte(e.Old))
	switch {
	case count == 0 && bytes.Contains(c.Data, []byte("\r\n")) && !strings.Contains(e.Old, "\r"):
		return Edited{}, toolset.UsageError(fmt.Sprintf("oldText is not in %q, whose lines end with CRLF: write \\r\\n, or replace parts of single lines", path))
	case count == 0:
		return Edited{}, toolset.UsageError(fmt.Sprintf("oldText is not in %q; it must match exactly, with white space: read the file again", path))
	case count > 1 && !e.All:
		return Edited{}, toolset.UsageError(fmt.Sprintf("oldText is in %q %d times; include more of the surrounding text, or set replaceAll", path, count))
	}
	edited := Edited{Content: bytes.ReplaceAll(c.Data, []byte(e.Old), []byte(e.New)), Version: c.Version, Count: count}
	if len(edited.Content) > MaxFileBytes {
		return Edited{}, toolset.UsageError(fmt.Sprintf("%q would have %d bytes, and may have %d", path, len(edited.Content), MaxFileBytes))
	}
	return edited, nil
}

// Entry is a file or a directory in a list.
type Entry struct {
	Path string
	// Mode is st_mode of stat.
	Mode uint32
	Size int64
	// Modified is the modification time in seconds since 1970.
	Modified int64
}

// Type returns "file", "directory", "symlink" or "other".
func (e Entry) Type() string {
	switch e.Mode & syscall.S_IFMT {
	case syscall.S_IFREG:
		return "file"
	case syscall.S_IFDIR:
		return "directory"
	case syscall.S_IFLNK:
		return "symlink"
	}
	return "other"
}

// List lists a directory and its subdirectories, down to depth levels. more reports whether
// there are more entries than it returns.
func (w Workspace) List(ctx context.Context, path string, depth int) (entries []Entry, more bool, err error) {
	out, err := w.fileScript(ctx, path, script{
		names: []string{"file", "list"}, args: []string{path, strconv.Itoa(depth), strconv.Itoa(maxListBytes)},
	}, maxListBytes)
	if err != nil {
		return nil, false, err
	}
	for line := range strings.Lines(string(out)) {
		entry, err := parseEntry(line)
		switch {
		case err == nil:
			entries = append(entries, entry)
		case len(entries) > 0 && strings.HasSuffix(line, "\n"):
			// The name contains a line break.
			entries[len(entries)-1].Path += "\n" + strings.TrimSuffix(line, "\n")
		}
	}
	return entries, len(out) == maxListBytes, nil
}

func parseEntry(line string) (Entry, error) {
	fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
	if len(fields) != 4 || !strings.HasSuffix(line, "\n") {
		return Entry{}, fmt.Errorf("%q is not an entry", line)
	}
	mode, modeErr := strconv.ParseUint(fields[0], 16, 32)
	size, sizeErr := strconv.ParseInt(fields[1], 10, 64)
	modified, timeErr := strconv.ParseInt(fields[2], 10, 64)
	return Entry{Path: strings.TrimPrefix(fields[3], "./"), Mode: uint32(mode), Size: size, Modified: modified}, errors.Join(modeErr, sizeErr, timeErr)
}
