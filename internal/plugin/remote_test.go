package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// inside is a workspace whose commands run on this machine, with a directory as home.
type inside struct {
	home string
	// cut ends each session with an error after this number of bytes of output, if it is not 0.
	cut int64
	// path is the PATH of the commands. Empty means the PATH of this process.
	path string
	// asked are the queries of the sessions.
	asked []string
}

func newInside(t *testing.T, api *fakeAPI, name string) *inside {
	t.Helper()
	i := &inside{home: t.TempDir()}
	api.answer("POST "+inCoder+"/coderworkspaces/"+name+"/exec", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		i.asked = append(i.asked, r.URL.RawQuery)
		on := func(name string) bool { return query.Get(name) == "true" }
		remotecommand.ServeExec(w, r, i, "", "", "", query["command"],
			&remotecommand.Options{Stdin: on("stdin"), Stdout: on("stdout"), Stderr: on("stderr"), TTY: on("tty")},
			time.Minute, time.Minute, []string{remotecommand.StreamProtocolV4Name})
	})
	return i
}

// ExecInContainer implements remotecommand.Executor.
func (i *inside) ExecInContainer(
	ctx context.Context, _, _, _ string, args []string, in io.Reader, out, errs io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	if len(args) == 0 {
		return nil
	}
	program, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, args[1:]...)
	cmd.Dir, cmd.Env = i.home, []string{"HOME=" + i.home, "PATH=" + os.Getenv("PATH")}
	if i.path != "" {
		cmd.Env[1] = "PATH=" + i.path
	}
	cmd.Stderr = errs
	if in != nil {
		cmd.Stdin = in
	}
	if i.cut > 0 {
		output, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		_, _ = io.CopyN(out, output, i.cut)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return errors.New("the connection to the agent ended before the command did")
	}
	cmd.Stdout = out
	// Otherwise Wait would wait for the input, which may not end.
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return utilexec.CodeExitError{Err: err, Code: exit.ExitCode()}
	}
	return nil
}

// texts returns the files below a directory.
func texts(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	if err := filepath.WalkDir(root, func(at string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(at)
		name, _ := filepath.Rel(root, at)
		found[name] = string(text)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestCopy(t *testing.T) {
	for name, c := range map[string]struct {
		here, there map[string]string
		// links are symbolic links on this machine and their targets.
		links map[string]string
		line  string
		want  answer
		// now is the expected content of home, or of the directory on this machine.
		now map[string]string
	}{
		"a directory": {here: map[string]string{"src/a": "1", "src/b c/d'e": "2"}, line: "./src ada.dev:new",
			now: map[string]string{"new/a": "1", "new/b c/d'e": "2"}},
		"into a directory": {here: map[string]string{"src/a": "1"}, there: map[string]string{"old/a": "x"}, line: "./src/ ada.dev:old",
			now: map[string]string{"old/a": "x", "old/src/a": "1"}},
		"its content": {here: map[string]string{"src/a": "1"}, there: map[string]string{"old/b": "x"}, line: "./src/. ada.dev:old",
			now: map[string]string{"old/a": "1", "old/b": "x"}},
		"to the home directory": {here: map[string]string{"src/a": "1"}, line: "./src ada.dev:", now: map[string]string{"src/a": "1"}},
		"a file":                {here: map[string]string{"-f": "1"}, line: "./-f ada.dev:~/g", now: map[string]string{"g": "1"}},
		"a file over one":       {here: map[string]string{"f": "1"}, there: map[string]string{"d/f": "0"}, line: "./f ada.dev:d", now: map[string]string{"d/f": "1"}},
		"a link to a file": {here: map[string]string{"app-1.log": "1"}, links: map[string]string{"latest.log": "app-1.log"}, line: "./latest.log ada.dev:",
			now: map[string]string{"latest.log": "1"}},
		"a link to a directory": {here: map[string]string{"v1/a": "1"}, links: map[string]string{"current": "v1"}, line: "./current ada.dev:",
			now: map[string]string{"current/a": "1"}},
		"to no directory": {here: map[string]string{"f": "1"}, line: "./f ada.dev:none/",
			want: answer{1, "", "in workspace coder.ada.dev: ./none/: no such directory"}, now: map[string]string{}},
		"a file over a directory": {here: map[string]string{"f": "1"}, there: map[string]string{"d/f/x": "0"}, line: "./f ada.dev:d",
			want: answer{1, "", "./d/f is a directory"}, now: map[string]string{"d/f/x": "0"}},
		"what is not here": {line: "./none ada.dev:", want: answer{2, "", "no such file or directory"}, now: map[string]string{}},
		"back":             {there: map[string]string{"out/a": "1", "out/b/c": "2"}, line: "ada.dev:out ./new", now: map[string]string{"new/a": "1", "new/b/c": "2"}},
		"back into a directory": {here: map[string]string{"old/x": "0"}, there: map[string]string{"out/a": "1"}, line: "ada.dev:out ./old",
			now: map[string]string{"old/x": "0", "old/out/a": "1"}},
		"a file back":           {there: map[string]string{"d/-f": "1"}, line: "ada.dev:d/-f ./g", now: map[string]string{"g": "1"}},
		"a file back into":      {here: map[string]string{"d/f": "0"}, there: map[string]string{"f": "1"}, line: "ada.dev:~/f ./d", now: map[string]string{"d/f": "1"}},
		"what is not there":     {line: "ada.dev:none ./x", want: answer{1, "", "in workspace coder.ada.dev: ./none: no such file or directory"}, now: map[string]string{}},
		"to no directory here":  {there: map[string]string{"f": "1"}, line: "ada.dev:f ./none/x", want: answer{2, "", "no such file or directory"}, now: map[string]string{}},
		"both here":             {line: "./a ./b", want: answer{2, "", "one of the two must be WORKSPACE:PATH"}, now: map[string]string{}},
		"both there":            {line: "ada.dev:a bo.dev:b", want: answer{2, "", "one of the two must be WORKSPACE:PATH"}, now: map[string]string{}},
		"two agents":            {line: "-c main ada.dev@gpu:a ./b", want: answer{2, "", "the agent is gpu in the path and main in the flag"}, now: map[string]string{}},
		"one argument":          {line: "ada.dev:a", want: answer{2, "", "give a source and a destination"}, now: map[string]string{}},
		"no workspace":          {line: ":a ./b", want: answer{2, "", "contains no name of a workspace"}, now: map[string]string{}},
		"a workspace not there": {line: "nobody:a ./b", want: answer{1, "", `"nobody" not found`}, now: map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			api := sampleAPI(t)
			i := newInside(t, api, "coder.ada.dev")
			i.home = directory(t, c.there)
			here := directory(t, c.here)
			for link, to := range c.links {
				if err := os.Symlink(to, filepath.Join(here, link)); err != nil {
					t.Fatal(err)
				}
			}
			line := strings.Fields(c.line)
			back := !strings.HasPrefix(line[0], ".")
			for n, word := range line {
				if strings.HasPrefix(word, "./") {
					line[n] = here + strings.TrimPrefix(word, ".")
				}
			}
			newHarness().run(t, api, append([]string{"-n", "coder", "cp"}, line...)...).want(t, c.want.code, c.want.out, c.want.err)
			root := i.home
			if back {
				root = here
			}
			if now := texts(t, root); fmt.Sprint(now) != fmt.Sprint(c.now) {
				t.Errorf("there are %v, want %v", now, c.now)
			}
		})
	}
}

// TestCopyIncomplete checks that an incomplete copy is an error that lists the missing files.
func TestCopyIncomplete(t *testing.T) {
	big := strings.Repeat("x", 3<<20)
	api := sampleAPI(t)
	i := newInside(t, api, "coder.ada.dev")
	i.home = directory(t, map[string]string{"out/only": big})
	i.cut = 2 << 20
	here := t.TempDir()
	got := newHarness().run(t, api, "-n", "coder", "cp", "ada.dev:out", filepath.Join(here, "cut"))
	for _, says := range []string{
		"the connection to the agent ended before the command did",
		`0 files (2.0 MiB) copied; "cut/only" was being copied, and what comes after it is missing`,
	} {
		got.want(t, 1, "", says)
	}
	if now := texts(t, here); len(now) > 0 {
		t.Errorf("there are %d files, want none that looks complete", len(now))
	}
	i.cut = 0
	// tar packs the remaining files if it cannot read one of them.
	real, err := exec.LookPath("tar")
	if err != nil {
		t.Fatal(err)
	}
	programs := directory(t, nil)
	i.path = programs + ":" + os.Getenv("PATH")
	program := fmt.Sprintf("#!/bin/sh\n%s \"$@\"\necho 'tar: ./secret: Cannot open: Permission denied\x1b[2J' >&2\nexit 2\n", real)
	if err := os.WriteFile(filepath.Join(programs, "tar"), []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	got = newHarness().run(t, api, "-n", "coder", "cp", "ada.dev:out", filepath.Join(here, "new"))
	got.want(t, 3, "", "in the workspace: tar: ./secret: Cannot open: Permission denied[2J\nkubectl coder: 1 file (3.0 MiB) copied\n")
	if now := texts(t, here); now["new/only"] != big {
		t.Errorf("there are %d files", len(now))
	}
	// A tar that ends before it has read everything.
	if err := os.WriteFile(filepath.Join(programs, "tar"), []byte("#!/bin/sh\necho 'tar: No space left on device' >&2\nexit 2\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	newHarness().run(t, api, "-n", "coder", "cp", filepath.Join(here, "new"), "ada.dev:").
		want(t, 1, "", "the copy is not complete: in workspace coder.ada.dev: tar: No space left on device")
	i.path = t.TempDir()
	newHarness().run(t, api, "-n", "coder", "cp", filepath.Join(here, "new"), "ada.dev:").want(t, 1, "", "the workspace has no tar")
	newHarness().run(t, api, "-n", "coder", "cp", "ada.dev:out", here).want(t, 1, "", "in workspace coder.ada.dev: the workspace has no tar")
}

// TestCopyCounts checks that the number at the end includes links.
func TestCopyCounts(t *testing.T) {
	api := sampleAPI(t)
	i := newInside(t, api, "coder.ada.dev")
	i.home = directory(t, map[string]string{"out/a": strings.Repeat("x", 3<<9)})
	if err := errors.Join(os.Link(filepath.Join(i.home, "out/a"), filepath.Join(i.home, "out/b")), os.Symlink("a", filepath.Join(i.home, "out/c"))); err != nil {
		t.Fatal(err)
	}
	here := t.TempDir()
	h := newHarness()
	h.live = true
	h.run(t, api, "-n", "coder", "cp", "ada.dev:out", here).want(t, 0, "", "3 files (1.5 KiB) copied\n")
	h.run(t, api, "-n", "coder", "cp", filepath.Join(here, "out"), "ada.dev:back").want(t, 0, "", "3 files (3.0 KiB) copied\n")
}

// TestCopyRefusedHere checks that an error of this machine is shown once, although it also ends the
// command in the workspace.
func TestCopyRefusedHere(t *testing.T) {
	refused := errors.New("the path is refused")
	u := &transfer{target: &target{Session: &Session{}}, report: &copyReport{}}
	err := u.outcome(refused, fmt.Errorf("writing the output of the command: %w", refused))
	if strings.Count(err.Error(), refused.Error()) != 1 {
		t.Errorf("want it once: %v", err)
	}
}

// building sets the build of a workspace, and its agent.
func building(api *fakeAPI, name, status string, number int64, agent string, conditions ...any) {
	agents := []any{}
	if agent != "" {
		agents = append(agents, fields{"name": "main", "status": agent})
	}
	build := fields{"number": number, "status": status, "transition": "start"}
	api.setStatus(workspaces, name, fields{"phase": "", "conditions": conditions, "latestBuild": build, "agents": agents})
}

// TestStartBeforeEntering checks that --start starts a workspace, waits until its agent is
// connected, and prints progress.
func TestStartBeforeEntering(t *testing.T) {
	failed := condition("Stalled", "True", "BuildFailed", "the start build failed: no quota")
	longLine := strings.Repeat("x", 70_000)
	for name, c := range map[string]struct {
		flags string
		// steps are the states after each second. The first one is the state before the command.
		steps []func(api *fakeAPI)
		want  answer
		// writes reports whether the start was requested.
		writes bool
	}{
		"it runs": {steps: []func(*fakeAPI){
			func(api *fakeAPI) { building(api, "coder.bo.dev", "running", 2, "connected") },
		}, want: answer{0, "in\n", ""}},
		"no such agent": {flags: "--agent=other", steps: []func(*fakeAPI){
			func(api *fakeAPI) { building(api, "coder.bo.dev", "running", 2, "timeout") },
		}, want: answer{0, "in\n", ""}},
		// OpenSSH changes the name of a host to lower case.
		"an agent in other case": {flags: "--agent=MAIN", steps: []func(*fakeAPI){
			func(api *fakeAPI) { building(api, "coder.bo.dev", "running", 2, "connecting") },
			func(api *fakeAPI) { building(api, "coder.bo.dev", "running", 2, "connected") },
		}, want: answer{0, "in\n", "agent \"main\" is not connected yet (connecting)"}},
		"it is stopped": {writes: true, steps: []func(*fakeAPI){
			func(api *fakeAPI) { building(api, "coder.bo.dev", "stopped", 2, "") },
			func(api *fakeAPI) { building(api, "coder.bo.dev", "starting", 3, "") },
			func(api *fakeAPI) { building(api, "coder.bo.dev", "running", 3, "connecting") },
			func(api *fakeAPI) { building(api, "coder.bo.dev", "running", 3, "connected") },
		}, want: answer{0, "in\n", "coder.bo.dev: start requested (after 0s)\n  " + longLine + "\n  Terraform applies[2J\ncoder.bo.dev: the start build is in progress (after 1s)\n" +
			"coder.bo.dev: the workspace is running, but agent \"main\" is not connected yet (connecting) (after 2s)\n"}},
		"it is stopping": {writes: true, steps: []func(*fakeAPI){
			func(api *fakeAPI) { building(api, "coder.bo.dev", "stopping", 2, "") },
			func(api *fakeAPI) { building(api, "coder.bo.dev", "stopped", 2, "") },
			func(api *fakeAPI) { building(api, "coder.bo.dev", "running", 3, "connected") },
		}, want: answer{0, "in\n", "start requested (after 1s)"}},
		"it failed before": {writes: true, steps: []func(*fakeAPI){
			func(api *fakeAPI) { building(api, "coder.bo.dev", "failed", 2, "", failed) },
			func(api *fakeAPI) { building(api, "coder.bo.dev", "running", 3, "connected") },
		}, want: answer{0, "in\n", "start requested"}},
		"it fails": {writes: true, steps: []func(*fakeAPI){
			func(api *fakeAPI) { building(api, "coder.bo.dev", "stopped", 2, "") },
			func(api *fakeAPI) { building(api, "coder.bo.dev", "failed", 3, "", failed) },
		}, want: answer{1, "", "workspace coder.bo.dev did not start: the start build failed: no quota; kubectl coder logs -n coder coder.bo.dev shows the whole log"}},
		"it is deleted": {steps: []func(*fakeAPI){
			func(api *fakeAPI) { building(api, "coder.bo.dev", "deleting", 3, "") },
		}, want: answer{1, "", "workspace coder.bo.dev is being deleted"}},
		"too long": {flags: "--start-timeout=3s", steps: []func(*fakeAPI){
			func(api *fakeAPI) { building(api, "coder.bo.dev", "running", 3, "timeout") },
		}, want: answer{1, "", "is not ready for a session after 3s: the workspace is running, but agent \"main\" is not connected yet (timeout); it continues to start without this command, and --start-timeout waits longer"}},
	} {
		t.Run(name, func(t *testing.T) {
			d, api := newHarness(), sampleAPI(t)
			newInside(t, api, "coder.bo.dev")
			taking(api, "start", "coder.bo.dev")
			api.answer("GET "+inCoder+"/coderworkspaces/coder.bo.dev/log", text(longLine+"\nTerraform applies\x1b[2J\n"))
			c.steps[0](api)
			d.clock.after = func(wait int) {
				if wait < len(c.steps) {
					c.steps[wait](api)
				}
			}
			line := append([]string{"-n", "coder", "exec", "bo.dev", "--start"}, strings.Fields(c.flags)...)
			d.run(t, api, append(line, "--", "echo", "in")...).want(t, c.want.code, c.want.out, c.want.err)
			if wrote := strings.Contains(strings.Join(api.writes, "\n"), "/start"); wrote != c.writes {
				t.Errorf("it wrote %q", api.writes)
			}
		})
	}
}

// TestShell checks that ssh lets the user's shell interpret the command, and that exec does not.
func TestShell(t *testing.T) {
	api := sampleAPI(t)
	i := newInside(t, api, "coder.ada.dev")
	newHarness().run(t, api, "-n", "coder", "ssh", "ada.dev", "--", "true;", "true")
	newHarness().run(t, api, "-n", "coder", "exec", "ada.dev", "--", "true;", "true")
	want := []string{
		"command=true%3B&command=true&shell=true&stderr=true&stdin=true&stdout=true",
		"command=true%3B&command=true&stderr=true&stdout=true",
	}
	if !slices.Equal(i.asked, want) {
		t.Errorf("it asked for %q, want %q", i.asked, want)
	}
}

// TestOutputThatCannotBeWritten checks that a command whose output is lost does not succeed.
func TestOutputThatCannotBeWritten(t *testing.T) {
	api := sampleAPI(t)
	newInside(t, api, "coder.ada.dev")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full")
	}
	defer func() { _ = full.Close() }()
	h := newHarness()
	h.out = full
	got := h.run(t, api, "-n", "coder", "exec", "ada.dev", "--", "echo", "lost")
	if got.code != 1 || !strings.Contains(got.err, "writing the output of the command: write /dev/full: no space left on device") {
		t.Errorf("code %d, %s", got.code, got.err)
	}
}

// TestInputThatCannotBeRead checks that a command that got only a part of its input does not succeed.
func TestInputThatCannotBeRead(t *testing.T) {
	api := sampleAPI(t)
	newInside(t, api, "coder.ada.dev")
	input, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = input.Close() }()
	h := newHarness()
	h.in = input
	got := h.run(t, api, "-n", "coder", "exec", "ada.dev", "-i", "--", "cat")
	if got.code != 1 || !strings.Contains(got.err, "reading the input of the command: read "+input.Name()+": is a directory") {
		t.Errorf("code %d, %s", got.code, got.err)
	}
}

// TestSSHStdio checks that data from OpenSSH's ProxyCommand reaches the agent of the host.
func TestSSHStdio(t *testing.T) {
	for host, want := range map[string]struct{ workspace, agent string }{
		"coder.ada.dev.cws":                     {workspace: "coder.ada.dev"},
		"ada.dev":                               {workspace: "coder.ada.dev"},
		"ada.dev--gpu.cws":                      {"coder.ada.dev", "agent=gpu&"},
		"coder.ada.my-dev--gpu-2.cws":           {"coder.ada.my-dev", "agent=gpu-2&"},
		"coder.ada.dev--1a2b3c4d.cws":           {workspace: "coder.ada.dev--1a2b3c4d"},
		"ada.dev--1a2b3c4d--gpu.cws":            {"coder.ada.dev--1a2b3c4d", "agent=gpu&"},
		"coder.ada.dev--5e6f7a8b--1a2b3c4d.cws": {},
	} {
		t.Run(host, func(t *testing.T) {
			api := sampleAPI(t)
			for _, name := range []string{"coder.ada.my-dev", "coder.ada.dev--1a2b3c4d"} {
				api.apply(t, "apiVersion: aggregation.coder.com/v1alpha1\nkind: CoderWorkspace\nmetadata: {namespace: coder, name: "+name+"}")
			}
			i := newInside(t, api, want.workspace)
			// The fake runs the command in the query, and the query for SSH contains none.
			got := newHarness().run(t, api, "-n", "coder", "ssh", "--stdio", "--host-suffix", "cws", "--", host)
			if want.workspace == "" {
				got.want(t, 1, "", `coderworkspaces "coder.ada.dev--5e6f7a8b" not found`)
			} else if !slices.Equal(i.asked, []string{want.agent + "ssh=true&stdin=true&stdout=true"}) {
				t.Errorf("it asked for %q: %+v", i.asked, got)
			}
		})
	}
}

// TestSSHStdioWithARoleForOneWorkspace checks that the host of an agent needs no permission for its own name.
func TestSSHStdioWithARoleForOneWorkspace(t *testing.T) {
	api := sampleAPI(t)
	for _, name := range []string{"coder.ada.dev--gpu", "coder.ada.web--gpu", "coder.ada.web"} {
		api.answer("GET "+inCoder+"/coderworkspaces/"+name,
			refuse(http.StatusForbidden, "Forbidden", "no get of "+name+";"))
	}
	i := newInside(t, api, "coder.ada.dev")
	ssh := []string{"-n", "coder", "ssh", "--stdio", "--host-suffix", "cws", "--"}
	got := newHarness().run(t, api, append(ssh, "coder.ada.dev--gpu.cws")...)
	if !slices.Equal(i.asked, []string{"agent=gpu&ssh=true&stdin=true&stdout=true"}) {
		t.Errorf("it asked for %q: %+v", i.asked, got)
	}
	newHarness().run(t, api, append(ssh, "coder.ada.web--gpu.cws")...).want(t, 1, "", "no get of coder.ada.web;")
}

func TestRemoteCommandLines(t *testing.T) {
	api := sampleAPI(t)
	runEach(t, api, map[string]answer{
		"exec":                     {2, "", "give the name of one workspace"},
		"exec dev":                 {2, "", "give the name of one workspace"},
		"exec dev true":            {2, "", "then -- and the command"},
		"exec dev other -- true":   {2, "", "then -- and the command"},
		"ssh":                      {2, "", "give the name of one workspace"},
		"ssh dev true":             {2, "", "a command only after --"},
		"port-forward dev":         {2, "", "at least one port"},
		"port-forward dev 0":       {2, "", `"0" is not a port`},
		"port-forward dev 1:70000": {2, "", `"1:70000" is not a port`},
		"port-forward dev 2222:22": {2, "", "belong to the agent itself"},
		"port-forward dev http":    {2, "", `"http" is not a port`},
		"ssh --stdio dev -- true":  {2, "", "--stdio takes no command"},
	})
}

func TestExitCode(t *testing.T) {
	ws := &aggregationv1alpha1.CoderWorkspace{}
	ws.Name = "coder.ada.dev"
	var exit *cli.ExitError
	if err := exitOf(ws, utilexec.CodeExitError{Err: errors.New("command terminated"), Code: 42}); !errors.As(err, &exit) || exit.Code != 42 || exit.Err != nil {
		t.Errorf("a command that ended with 42: %v", err)
	}
	if err := exitOf(ws, errors.New("lost")); err == nil || errors.As(err, new(*cli.ExitError)) || err.Error() != "workspace coder.ada.dev: lost" {
		t.Errorf("a connection that was lost: %v", err)
	}
	cut := fmt.Errorf("error reading from error stream: %w", fmt.Errorf("next reader: %w", &websocket.CloseError{Code: websocket.CloseAbnormalClosure}))
	if err := exitOf(ws, cut); err == nil || !strings.Contains(err.Error(), "the connection to workspace coder.ada.dev is lost") {
		t.Errorf("a replica that was killed: %v", err)
	}
	if err := exitOf(ws, nil); err != nil {
		t.Error(err)
	}
}
