package inside_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/coder-k8s/coder-k8s/internal/kube/remoteexec"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/inside"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// forEachShell runs a test with each sh that workspaces may have.
func forEachShell(t *testing.T, test func(t *testing.T, w *mcptest.Workspace)) {
	t.Helper()
	for name, shell := range map[string][]string{"dash": {"dash"}, "bash": {"bash", "--posix"}, "busybox": {"busybox", "sh"}} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(shell[0]); err != nil {
				t.Skipf("there is no %s on this machine", shell[0])
			}
			t.Parallel()
			w := mcptest.NewWorkspace(t)
			w.Shell = shell
			test(t, w)
		})
	}
}

func in(w *mcptest.Workspace) inside.Workspace {
	return inside.Workspace{Exec: w.Exec, Namespace: "coder", Name: "coder.ada.dev"}
}

func command(line string) inside.Command {
	return inside.Command{Line: line, Directory: ".", Timeout: time.Minute, OutputBytes: 1000}
}

func run(t *testing.T, w *mcptest.Workspace, c inside.Command) inside.Result {
	t.Helper()
	result, err := in(w).Run(polltest.Context(t), c)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// stop stops a background command. On a busy machine, the command may still run after the time that
// one call waits.
func stop(ctx context.Context, w *mcptest.Workspace, id string) (inside.Result, error) {
	for {
		if result, err := in(w).Stop(ctx, id, 100); err != nil || result.State != inside.Running {
			return result, err
		}
	}
}

func TestRunSeparatesTheStreamsAndReturnsTheExitCode(t *testing.T) {
	forEachShell(t, func(t *testing.T, w *mcptest.Workspace) {
		c := command(`cat; echo "it's \$HOME" "$(pwd)" >&2; exit 7`)
		c.Stdin = "in\x00put"
		result := run(t, w, c)
		if got := string(result.Stdout.Start); got != "in\x00put" {
			t.Errorf("stdout is %q", got)
		}
		if got, want := string(result.Stderr.Start), "it's $HOME "+w.Home+"\n"; got != want {
			t.Errorf("stderr is %q, want %q", got, want)
		}
		if result.State != inside.Ended || result.ExitCode != 7 || !result.Stdout.IsBinary() || result.Stderr.IsBinary() {
			t.Errorf("the result is %+v", result)
		}
		if result := run(t, w, command("no-such-program")); result.ExitCode != 127 {
			t.Errorf("a program that is not there ends with %+v", result)
		}
	})
}

// The shell that runs the scripts never interprets the caller's values.
func TestRunPassesOnWhatIsGivenAsItIs(t *testing.T) {
	forEachShell(t, func(t *testing.T, w *mcptest.Workspace) {
		odd := "-n '\"; touch $(echo pwned) `x` \\ *\n"
		if err := os.Mkdir(filepath.Join(w.Home, odd), 0o755); err != nil {
			t.Fatal(err)
		}
		c := command("cat <<'END'\n" + odd + "END\npwd")
		c.Directory = odd
		if got, want := string(run(t, w, c).Stdout.Start), odd+filepath.Join(w.Home, odd)+"\n"; got != want {
			t.Errorf("the output is %q, want %q", got, want)
		}
		for _, directory := range []string{"", odd} {
			if _, err := os.Stat(filepath.Join(w.Home, directory, "pwned")); err == nil {
				t.Error("a part of the arguments ran as a command")
			}
		}
	})
}

func TestRunKeepsBothEndsOfMuchOutput(t *testing.T) {
	w := mcptest.NewWorkspace(t)
	result := run(t, w, command(`echo first; head -c 3000000 /dev/zero | tr '\0' 'é'; echo last`))
	shown := result.Stdout.Text()
	if !strings.HasPrefix(shown, "first\n") || !strings.HasSuffix(shown, "last\n") || !strings.Contains(shown, " bytes are left out here]") {
		t.Errorf("shown is %q", shown)
	}
	if result.Stdout.Size != 3000011 || result.Stdout.Omitted() != 3000011-1000 {
		t.Errorf("the size is %d and %d are left out", result.Stdout.Size, result.Stdout.Omitted())
	}
}

func TestEndlessOutputStopsTheCommand(t *testing.T) {
	w := mcptest.NewWorkspace(t)
	result := run(t, w, command("echo $$ >pid; yes"))
	if result.State != inside.Stopped || !strings.Contains(result.Why, "67108864 bytes") || !strings.HasPrefix(result.Stdout.Text(), "y\ny\n") {
		t.Errorf("the result is %s, %s", result.State, result.Why)
	}
	wantGone(t, w, "pid")
}

// wantGone waits until the process whose ID is in a file has ended.
func wantGone(t *testing.T, w *mcptest.Workspace, file string) {
	t.Helper()
	pid, err := os.ReadFile(filepath.Join(w.Home, file))
	if err != nil {
		t.Fatal(err)
	}
	polltest.Eventually(t, "process "+string(pid)+" ends", func() error {
		status, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		if err == nil && !strings.Contains(string(status), ") Z ") {
			return fmt.Errorf("it runs: %s", status)
		}
		return nil
	})
}

// runTooLong runs a command until it is stopped at its timeout. A busy machine may need a longer
// timeout until the command has written the files.
func runTooLong(t *testing.T, w *mcptest.Workspace, line string, files ...string) (result inside.Result, timeout time.Duration) {
	t.Helper()
	missing := func(file string) bool {
		content, _ := os.ReadFile(filepath.Join(w.Home, file))
		return len(content) == 0
	}
	for timeout = time.Second; ; timeout *= 4 {
		c := command(line)
		c.Timeout = timeout
		result = run(t, w, c)
		if timeout > time.Minute || !slices.ContainsFunc(files, missing) {
			return result, timeout
		}
	}
}

func TestTimeoutStopsAllThatTheCommandStarted(t *testing.T) {
	forEachShell(t, func(t *testing.T, w *mcptest.Workspace) {
		result, timeout := runTooLong(t, w, `echo said; trap "" TERM; sh -c 'echo $$ >child; sleep 1000' & sleep 1000 & sh -c 'trap "" TERM; echo $$ >deaf; while :; do sleep 1; done'`, "child", "deaf")
		if result.State != inside.Stopped || !strings.Contains(result.Why, "did not end within "+timeout.String()) || string(result.Stdout.Start) != "said\n" {
			t.Errorf("the result is %+v", result)
		}
		wantGone(t, w, "child")
		wantGone(t, w, "deaf")
	})
}

func TestWhatACommandLeavesRunningIsKilled(t *testing.T) {
	forEachShell(t, func(t *testing.T, w *mcptest.Workspace) {
		result := run(t, w, command("sleep 1000 & echo $! >left"))
		if result.State != inside.Ended || result.ExitCode != 0 {
			t.Errorf("the result is %+v", result)
		}
		wantGone(t, w, "left")
	})
}

// The image of the demo has bash and no setsid.
func TestWithoutSetsidWhatACommandStartsIsStopped(t *testing.T) {
	forEachShell(t, func(t *testing.T, w *mcptest.Workspace) {
		withoutSetsid(t, w)
		ctx := polltest.Context(t)
		result := run(t, w, command("sleep 1000 & echo $! >left; echo $(cat) said; exit 3"))
		if result.State != inside.Ended || result.ExitCode != 3 || string(result.Stdout.Start) != "said\n" || result.Stderr.Size != 0 {
			t.Errorf("the result is %+v", result)
		}
		wantGone(t, w, "left")
		if result, _ := runTooLong(t, w, `trap "" TERM; sh -c 'echo $$ >deaf; while :; do sleep 1; done'`, "deaf"); result.State != inside.Stopped {
			t.Errorf("the result is %+v", result)
		}
		wantGone(t, w, "deaf")
		id, err := in(w).Start(ctx, command("sleep 1000 & echo $! >child; wait"))
		if err != nil {
			t.Fatal(err)
		}
		polltest.Eventually(t, "it runs", func() error {
			_, err := os.Stat(filepath.Join(w.Home, "child"))
			return err
		})
		if result, err := stop(ctx, w, id); err != nil || result.State != inside.Ended || result.ExitCode == 0 {
			t.Errorf("stopped: %+v %v", result, err)
		}
		wantGone(t, w, "child")
	})
}

// withoutSetsid removes all programs from the workspace but those that it needs.
func withoutSetsid(t *testing.T, w *mcptest.Workspace) {
	t.Helper()
	programs := t.TempDir()
	for _, name := range strings.Fields("sh bash cat cksum cp dd find grep head mkdir mv rm sleep tail wc") {
		path, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(path, filepath.Join(programs, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range w.Shell[:1] {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		w.Shell[i] = path
	}
	w.Env = append(w.Env, "PATH="+programs)
}

func TestACallThatIsCancelledStopsTheCommand(t *testing.T) {
	forEachShell(t, func(t *testing.T, w *mcptest.Workspace) {
		ctx, cancel := context.WithCancel(polltest.Context(t))
		c := command("echo $$ >pid; echo begun; sleep 1000")
		c.Wrote = func(int64) { cancel() }
		if _, err := in(w).Run(ctx, c); !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
		wantGone(t, w, "pid")
	})
}

func TestBackgroundCommandsOutliveTheirCall(t *testing.T) {
	forEachShell(t, func(t *testing.T, w *mcptest.Workspace) {
		ctx := polltest.Context(t)
		id, err := in(w).Start(ctx, command("echo one; echo two >&2; umask; while ! [ -e go ]; do sleep 0.1; done; echo three; exit 3"))
		if err != nil {
			t.Fatal(err)
		}
		var result inside.Result
		polltest.Eventually(t, "its first output is there", func() error {
			if result, err = in(w).Poll(ctx, id, 1000); err != nil || !strings.HasPrefix(string(result.Stdout.Start), "one\n0022\n") || string(result.Stderr.Start) != "two\n" {
				return errors.Join(err, fmt.Errorf("the result is %+v", result))
			}
			return nil
		})
		if result.State != inside.Running {
			t.Errorf("the result is %+v", result)
		}
		if err := os.WriteFile(filepath.Join(w.Home, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		polltest.Eventually(t, "it ends", func() error {
			if result, err = in(w).Poll(ctx, id, 1000); err != nil || result.State != inside.Ended {
				return errors.Join(err, fmt.Errorf("the result is %+v", result))
			}
			return nil
		})
		if result.ExitCode != 3 || string(result.Stdout.Start) != "one\n0022\nthree\n" || result.Stdout.Omitted() != 0 {
			t.Errorf("the result is %+v", result)
		}
	})
}

func TestBackgroundCommandsAreStopped(t *testing.T) {
	forEachShell(t, func(t *testing.T, w *mcptest.Workspace) {
		ctx := polltest.Context(t)
		id, err := in(w).Start(ctx, command("echo $$ >pid; yes & echo $! >child; wait"))
		if err != nil {
			t.Fatal(err)
		}
		polltest.Eventually(t, "it runs", func() error {
			_, err := os.Stat(filepath.Join(w.Home, "child"))
			return err
		})
		result, err := stop(ctx, w, id)
		if err != nil || result.State != inside.Ended || result.ExitCode == 0 {
			t.Errorf("stopped: %+v %v", result, err)
		}
		wantGone(t, w, "pid")
		wantGone(t, w, "child")
		stored := int64(0)
		files, err := filepath.Glob(filepath.Join(w.Home, ".cache/coder-k8s/commands", id, "out.*"))
		for _, file := range files {
			if info, err := os.Stat(file); err == nil {
				stored += info.Size()
			}
		}
		if err != nil || stored > 8<<20 || result.Stdout.Size < stored {
			t.Errorf("%d bytes are stored of %d: %v", stored, result.Stdout.Size, err)
		}
		if again, err := in(w).Stop(ctx, id, 100); err != nil || again.State != inside.Ended {
			t.Errorf("stopped again: %+v %v", again, err)
		}
	})
}

// All commands run at the same time, so that their shells are slow.
func TestNothingStaysOfManyCommands(t *testing.T) {
	forEachShell(t, func(t *testing.T, w *mcptest.Workspace) {
		w.Env = append(w.Env, "OF_MANY_COMMANDS="+t.Name())
		var all sync.WaitGroup
		for range 40 {
			all.Go(func() {
				c := command("echo said")
				c.Timeout = time.Hour
				result, err := in(w).Run(polltest.Context(t), c)
				if err != nil || result.State != inside.Ended || string(result.Stdout.Start) != "said\n" {
					t.Errorf("the result is %+v: %v", result, err)
				}
			})
		}
		all.Wait()
		polltest.Eventually(t, "no process is left", func() error {
			programs, err := filepath.Glob("/proc/[0-9]*/environ")
			for _, file := range programs {
				if environment, _ := os.ReadFile(file); strings.Contains(string(environment), "OF_MANY_COMMANDS="+t.Name()) {
					arguments, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
					err = errors.Join(err, fmt.Errorf("%s is left: %q", file, arguments))
				}
			}
			return err
		})
	})
}

func TestACommandThatJustBeganIsNotLost(t *testing.T) {
	forEachShell(t, func(t *testing.T, w *mcptest.Workspace) {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				ctx := polltest.Context(t)
				id, err := in(w).Start(ctx, command("sleep 1000"))
				if err != nil {
					t.Error(err)
					return
				}
				if result, err := in(w).Poll(ctx, id, 100); err != nil || result.State != inside.Running {
					t.Errorf("the result is %+v: %v", result, err)
				}
				if result, err := stop(ctx, w, id); err != nil || result.State != inside.Ended {
					t.Errorf("stopped: %+v: %v", result, err)
				}
			})
		}
		all.Wait()
	})
}

func TestALostCommandIsReported(t *testing.T) {
	w := mcptest.NewWorkspace(t)
	store := filepath.Join(w.Home, ".cache/coder-k8s/commands/abcdefghijklmnopqrstuvwxyz")
	if err := os.MkdirAll(store, 0o700); err != nil {
		t.Fatal(err)
	}
	// A running process that does not belong to this command.
	if err := os.WriteFile(filepath.Join(store, "pid"), fmt.Appendf(nil, "-%d 1\n", os.Getpid()), 0o600); err != nil {
		t.Fatal(err)
	}
	result, err := in(w).Stop(polltest.Context(t), "abcdefghijklmnopqrstuvwxyz", 100)
	if err != nil || result.State != inside.Lost {
		t.Errorf("the result is %+v %v", result, err)
	}
}

// Between a command's end and the storing of its exit code there is a moment in which neither its process nor the code
// is there. The poll then waits, with "sleep", which stores the code in this test.
func TestACommandThatJustEndedIsNotLost(t *testing.T) {
	w := mcptest.NewWorkspace(t)
	id := "abcdefghijklmnopqrstuvwxyz"
	store := filepath.Join(w.Home, ".cache/coder-k8s/commands", id)
	programs := filepath.Join(w.Home, "programs")
	for name, content := range map[string]string{
		filepath.Join(store, "pid"):      fmt.Sprintf("-%d 1\n", os.Getpid()),
		filepath.Join(programs, "sleep"): "#!/bin/sh\necho 3 >" + store + "/code\n: >" + store + "/done\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o700); err != nil { //nolint:gosec // One of them is a program.
			t.Fatal(err)
		}
	}
	w.Env = []string{"PATH=" + programs + ":" + os.Getenv("PATH")}
	result, err := in(w).Poll(polltest.Context(t), id, 100)
	if err != nil || result.State != inside.Ended || result.ExitCode != 3 {
		t.Errorf("the result is %+v %v", result, err)
	}
}

func TestBadCommandsAreRefused(t *testing.T) {
	w := mcptest.NewWorkspace(t)
	w.Before = func(c remoteexec.Command) {
		if !slices.Contains(c.Args, "true") {
			t.Errorf("%q runs", c.Args)
		}
	}
	for name, c := range map[string]struct {
		change func(*inside.Command)
		want   string
	}{
		"empty":        {func(c *inside.Command) { c.Line = " \n" }, "command is required"},
		"long":         {func(c *inside.Command) { c.Line = strings.Repeat("x", inside.MaxCommandBytes+1) }, "write a script"},
		"much input":   {func(c *inside.Command) { c.Stdin = strings.Repeat("x", inside.MaxStdinBytes+1) }, "write a file"},
		"NUL":          {func(c *inside.Command) { c.Line = "a\x00b" }, "NUL"},
		"no directory": {func(c *inside.Command) { c.Directory = "/nowhere/at all" }, `there is no "/nowhere/at all"`},
		"a file":       {func(c *inside.Command) { c.Directory = "/etc/passwd" }, `"/etc/passwd" is not a directory`},
	} {
		t.Run(name, func(t *testing.T) {
			bad := command("true")
			c.change(&bad)
			if _, err := in(w).Run(t.Context(), bad); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q in it", err, c.want)
			}
			if name == "NUL" || name == "much input" {
				return
			}
			if _, err := in(w).Start(t.Context(), bad); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("in the background the error is %v, want %q in it", err, c.want)
			}
		})
	}
	for _, id := range []string{"", "x", "../../../../etc/passwd", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"} {
		if _, err := in(w).Poll(t.Context(), id, 100); err == nil || !strings.Contains(err.Error(), "what run_in_workspace returned") {
			t.Errorf("id %q: %v", id, err)
		}
	}
}

func TestWhatTheAPISaysIsPassedOn(t *testing.T) {
	resource := schema.GroupResource{Group: "aggregation.coder.com", Resource: "coderworkspaces"}
	w := mcptest.NewWorkspace(t)
	for want, err := range map[string]error{
		`cannot open a session in workspace coder.ada.dev: Operation cannot be fulfilled on coderworkspaces.aggregation.coder.com "x": agent "main" is not connected (timeout)`: apierrors.NewConflict(resource, "x", errors.New(`agent "main" is not connected (timeout)`)),
		`ask an administrator for ClusterRole coder-k8s-workspace-access in the namespace`:                                                                                      apierrors.NewForbidden(resource, "x", errors.New(`User "ada" cannot create it`)),
		`the connection to workspace coder.ada.dev was lost`:                                                                                                                    errors.New("websocket: close 1006"),
	} {
		w.Fail = err
		_, got := in(w).Run(t.Context(), command("true"))
		if _, told := toolset.Sentence(t.Context(), got); !strings.Contains(told, want) {
			t.Errorf("told is %q, want %q", told, want)
		}
	}
}
