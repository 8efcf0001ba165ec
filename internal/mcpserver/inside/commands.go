package inside

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

const (
	// MaxCommandBytes limits the size of a command. Linux accepts at most 128 KiB in one
	// argument, and quoting makes the command longer.
	MaxCommandBytes = 24 << 10
	// MaxStdinBytes limits the standard input of a command.
	MaxStdinBytes = 1 << 20
	// MaxOutputBytes limits the output of a command in the foreground, for each stream.
	MaxOutputBytes = 64 << 20
	// BackgroundTime is the maximum duration of a background command.
	BackgroundTime = 24 * time.Hour

	// grace is the time that a command has to end after its timeout.
	grace = 8 * time.Second
	// exitTerminated and exitKilled are the exit codes of a stopped command: 128 plus the
	// number of the signal.
	exitTerminated, exitKilled = 128 + 15, 128 + 9
	// keepDays is the number of days after which the files of a background command are
	// deleted.
	keepDays = 2
	begun    = "begun\n"
)

// Command is a command for the shell.
type Command struct {
	Line, Directory, Stdin string
	// Timeout is the duration after which the command is stopped.
	Timeout time.Duration
	// OutputBytes is the maximum size of the output that is kept, for each stream.
	OutputBytes int
	// Wrote is called with the total size of the output after each write; it may be nil.
	Wrote func(bytes int64)
}

// State is the state of a command.
type State string

// The states of a command.
const (
	Running State = "running"
	Ended   State = "ended"
	// Stopped means that the command was ended because of its timeout or the size of its
	// output.
	Stopped State = "stopped"
	// Lost means that a background command disappeared without an exit code, for example
	// because the workspace was stopped.
	Lost State = "lost"
)

// Result is the state of a command and its output.
type Result struct {
	State          State
	ExitCode       int
	Stdout, Stderr Output
	// Why is the reason why the command was stopped.
	Why string
}

func (c Command) check() error {
	switch {
	case strings.TrimSpace(c.Line) == "":
		return toolset.UsageError("command is required")
	case len(c.Line) > MaxCommandBytes:
		return toolset.UsageError(fmt.Sprintf("the command has %d bytes and may have %d: write a script with write_workspace_file and run that", len(c.Line), MaxCommandBytes))
	case len(c.Stdin) > MaxStdinBytes:
		return toolset.UsageError(fmt.Sprintf("stdin has %d bytes and may have %d: write a file and read that", len(c.Stdin), MaxStdinBytes))
	}
	return nil
}

var errTooMuch = errors.New("too much output")

// Run runs a command and waits for its end. It stops the command after its timeout, and
// when the context ends.
func (w Workspace) Run(ctx context.Context, c Command) (Result, error) {
	if err := c.check(); err != nil {
		return Result{}, err
	}
	started := time.Now()
	// A script in the workspace stops the command at its timeout. This is the fallback.
	limit, cancel := context.WithTimeout(ctx, c.Timeout+grace)
	defer cancel()
	limit, stop := context.WithCancelCause(limit)
	defer stop(nil)
	stdout, stderr := &ends{most: c.OutputBytes}, &ends{most: c.OutputBytes}
	wrote := func() {
		if c.Wrote != nil {
			c.Wrote(stdout.size() + stderr.size())
		}
		if max(stdout.size(), stderr.size()) > MaxOutputBytes {
			stop(errTooMuch)
		}
	}
	first := &firstLine{want: begun, rest: &watched{to: stdout, wrote: wrote}}
	s := script{names: []string{"file", "attend", "run"}, args: []string{c.Directory, strconv.Itoa(int(c.Timeout.Seconds())), c.Line}}
	if c.Stdin != "" {
		s.stdin = strings.NewReader(c.Stdin)
	}
	code, err := w.run(limit, s, first, &watched{to: stderr, wrote: wrote})
	result := Result{State: Ended, ExitCode: code, Stdout: stdout.output(), Stderr: stderr.output()}
	switch {
	case ctx.Err() != nil:
		return Result{}, ctx.Err()
	case errors.Is(context.Cause(limit), errTooMuch):
		result.State, result.Why = Stopped, fmt.Sprintf("the command wrote more than %d bytes and was stopped: redirect its output to a file, or print less", MaxOutputBytes)
	case limit.Err() != nil:
		result.State, result.Why = Stopped, fmt.Sprintf("the command, or a process that it started, did not end within %s and was stopped: give more timeoutSeconds, or run it in the background", c.Timeout)
	case err != nil:
		return Result{}, err
	case !first.seen():
		return Result{}, w.didNotBegin(c.Directory, code, first, stderr)
	case (code == exitTerminated || code == exitKilled) && time.Since(started) >= c.Timeout:
		result.State, result.Why = Stopped, fmt.Sprintf("the command did not end within %s and was stopped: give more timeoutSeconds, or run it in the background", c.Timeout)
	}
	return result, nil
}

func (w Workspace) didNotBegin(directory string, code int, first *firstLine, stderr *ends) error {
	if code == 0 {
		return w.unexpected(first.other())
	}
	said := &limited{most: maxDetail}
	_, _ = said.Write(stderr.output().Start)
	return w.problem(directory, code, said)
}

// Start starts a background command and returns its ID.
func (w Workspace) Start(ctx context.Context, c Command) (id string, err error) {
	if err := c.check(); err != nil {
		return "", err
	}
	if c.Stdin != "" {
		return "", toolset.UsageError("stdin is for a command in the foreground; write a file and let the command read it")
	}
	id = strings.ToLower(rand.Text())
	first := &firstLine{want: begun, rest: io.Discard}
	stderr := &ends{most: 2 * maxDetail}
	code, err := w.run(ctx, script{names: []string{"file", "attend", "store", "start"}, args: []string{
		c.Directory, id, strconv.Itoa(int(BackgroundTime.Seconds())), c.Line, strconv.Itoa(keepDays),
	}}, first, stderr)
	switch {
	case err != nil:
		return "", err
	case !first.seen():
		return "", w.didNotBegin(c.Directory, code, first, stderr)
	}
	return id, nil
}

var idPattern = regexp.MustCompile(`^[a-z0-9]{20,40}$`)

// Poll returns the state and the output of a background command.
func (w Workspace) Poll(ctx context.Context, id string, outputBytes int) (Result, error) {
	if !idPattern.MatchString(id) {
		return Result{}, toolset.UsageError("id must be what run_in_workspace returned for a command in the background")
	}
	half := strconv.Itoa(outputBytes / 2)
	stdout, stderr := &limited{most: int64(outputBytes) + maxHeader}, &limited{most: int64(outputBytes)}
	code, err := w.run(ctx, script{names: []string{"store", "poll"}, args: []string{"", id, half, half}}, stdout, stderr)
	if err != nil {
		return Result{}, err
	}
	if code != 0 {
		return Result{}, w.problem(id, code, stderr)
	}
	header, out, _ := bytes.Cut(stdout.bytes(), []byte("\n"))
	var r Result
	var outSize, outStart, errSize, errStart int64
	if _, err := fmt.Sscan(string(header), (*string)(&r.State), &r.ExitCode, &outSize, &outStart, &errSize, &errStart); err != nil {
		return Result{}, w.unexpected(header)
	}
	r.Stdout, r.Stderr = split(out, outSize, outStart), split(stderr.bytes(), errSize, errStart)
	return r, nil
}

// split returns the Output for what poll.sh printed of a stream.
func split(shown []byte, size, start int64) Output {
	if start < 0 || start > int64(len(shown)) {
		return Output{Start: shown, Size: int64(len(shown))}
	}
	return Output{Start: shown[:start], End: shown[start:], Size: max(size, int64(len(shown)))}
}

// Stop stops a background command and all processes that it started, and returns its
// result.
func (w Workspace) Stop(ctx context.Context, id string, outputBytes int) (Result, error) {
	if _, err := w.Poll(ctx, id, 0); err != nil {
		return Result{}, err
	}
	if _, err := w.fileScript(ctx, id, script{names: []string{"store", "stop"}, args: []string{"", id}}, maxHeader); err != nil {
		return Result{}, err
	}
	return w.Poll(ctx, id, outputBytes)
}

type watched struct {
	to    io.Writer
	wrote func()
}

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	w.wrote()
	return n, err
}

// firstLine removes the expected first line from a stream.
type firstLine struct {
	want string
	rest io.Writer

	mu  sync.Mutex
	got []byte
	ok  bool
}

func (f *firstLine) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ok {
		return f.rest.Write(p)
	}
	n := len(p)
	if len(f.got) < maxHeader {
		f.got = append(f.got, p[:min(n, maxHeader)]...)
	}
	rest, ok := strings.CutPrefix(string(f.got), f.want)
	if !ok {
		return n, nil
	}
	f.ok = true
	rest += string(p[min(n, maxHeader):])
	if rest == "" {
		return n, nil
	}
	_, err := io.WriteString(f.rest, rest)
	return n, err
}

func (f *firstLine) seen() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ok
}

func (f *firstLine) other() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return bytes.Clone(f.got)
}

// limited keeps the first most bytes that are written to it.
type limited struct {
	most int64

	mu   sync.Mutex
	kept []byte
}

func (l *limited) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if room := l.most - int64(len(l.kept)); room > 0 {
		l.kept = append(l.kept, p[:min(int64(len(p)), room)]...)
	}
	return len(p), nil
}

func (l *limited) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.kept)
}

// Output is the output of a program on one stream, as far as it is kept.
type Output struct {
	// Start and End are the first and the newest bytes. End is empty if nothing is left
	// out.
	Start, End []byte
	// Size is the number of all bytes.
	Size int64
}

// Omitted returns the number of bytes that are left out between Start and End.
func (o Output) Omitted() int64 { return o.Size - int64(len(o.Start)) - int64(len(o.End)) }

// Text returns the cleaned output. If bytes are left out, a line says how many.
func (o Output) Text() string {
	if o.Omitted() == 0 {
		return toolset.CleanText(string(o.Start) + string(o.End))
	}
	start, end := toolset.WholeCharacters(o.Start), toolset.FromCharacter(o.End)
	omitted := o.Size - int64(len(start)) - int64(len(end))
	return fmt.Sprintf("%s\n[%d bytes are left out here]\n%s", toolset.CleanText(string(start)), omitted, toolset.CleanText(string(end)))
}

// IsBinary reports whether the output is not UTF-8 text.
func (o Output) IsBinary() bool {
	if o.Omitted() == 0 {
		return isBinary(append(bytes.Clone(o.Start), o.End...))
	}
	return isBinary(toolset.WholeCharacters(o.Start)) || isBinary(toolset.FromCharacter(o.End))
}

func isBinary(b []byte) bool { return bytes.IndexByte(b, 0) >= 0 || !utf8.Valid(b) }

// ends keeps the beginning and the end of a stream.
type ends struct {
	// most is the maximum number of bytes that are kept, half of them from the start.
	most int

	mu  sync.Mutex
	out Output
}

func (e *ends) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := len(p)
	e.out.Size += int64(n)
	half := e.most / 2
	if room := half - len(e.out.Start); room > 0 {
		taken := min(room, len(p))
		e.out.Start = append(e.out.Start, p[:taken]...)
		p = p[taken:]
	}
	e.out.End = append(e.out.End, p...)
	// Cut only when End has twice its size, so that the kept bytes are not copied at each
	// write.
	if len(e.out.End) > 2*half {
		e.out.End = append([]byte(nil), e.out.End[len(e.out.End)-half:]...)
	}
	return n, nil
}

func (e *ends) size() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.out.Size
}

func (e *ends) output() Output {
	e.mu.Lock()
	defer e.mu.Unlock()
	end := e.out.End
	if half := e.most / 2; len(end) > half {
		end = end[len(end)-half:]
	}
	return Output{Start: bytes.Clone(e.out.Start), End: bytes.Clone(end), Size: e.out.Size}
}
