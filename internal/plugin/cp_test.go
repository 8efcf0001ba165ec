package plugin

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

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
	u := &transfer{agentCommand: &agentCommand{Session: &Session{}}, report: &copyReport{}}
	err := u.outcome(refused, fmt.Errorf("writing the output of the command: %w", refused))
	if strings.Count(err.Error(), refused.Error()) != 1 {
		t.Errorf("want it once: %v", err)
	}
}
