package inside_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/kube/remoteexec"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/inside"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

func put(t *testing.T, w *mcptest.Workspace, name, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(w.Home, name)
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func wantContent(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s is %q, want %q: %v", path, got, want, err)
	}
}

func lines(first, count, most int64) inside.Range {
	return inside.Range{Lines: true, First: first, Count: count + 1, MaxBytes: most + 1}
}

func TestReadReturnsParts(t *testing.T) {
	forEachShell(t, func(t *testing.T, w *mcptest.Workspace) {
		put(t, w, "-odd 'name'\n", "eins\nzwei\ndrei ü\nvier", 0o600)
		for name, c := range map[string]struct {
			r    inside.Range
			want inside.Part
		}{
			"all":              {lines(1, 10, 100), inside.Part{Data: []byte("eins\nzwei\ndrei ü\nvier")}},
			"two lines":        {lines(2, 2, 100), inside.Part{Data: []byte("zwei\ndrei ü\n"), More: true, NextLine: 4}},
			"the last line":    {lines(4, 1, 100), inside.Part{Data: []byte("vier")}},
			"behind the end":   {lines(9, 1, 100), inside.Part{Data: []byte{}}},
			"few bytes":        {lines(1, 10, 7), inside.Part{Data: []byte("eins\n"), More: true, NextLine: 2}},
			"a part of a line": {lines(3, 10, 6), inside.Part{Data: []byte("drei "), More: true, NextLine: 4, CutLine: 3}},
			"bytes":            {inside.Range{First: 11, Count: 7, MaxBytes: 7}, inside.Part{Data: []byte("drei "), More: true, NextByte: 16}},
			"the next bytes":   {inside.Range{First: 16, Count: 7, MaxBytes: 7}, inside.Part{Data: []byte("ü\nvie"), More: true, NextByte: 22}},
			"last bytes":       {inside.Range{First: 22, Count: 7, MaxBytes: 7}, inside.Part{Data: []byte("r")}},
		} {
			content, err := in(w).Read(polltest.Context(t), "~/-odd 'name'\n", c.r)
			if err != nil {
				t.Fatal(err)
			}
			got := content.Part(c.r, int(c.r.Count-1), int(c.r.MaxBytes-1))
			if !bytes.Equal(got.Data, c.want.Data) || got.More != c.want.More || got.NextLine != c.want.NextLine || got.NextByte != c.want.NextByte || got.CutLine != c.want.CutLine || got.Binary {
				t.Errorf("%s: %+v (%q), want %+v (%q)", name, got, got.Data, c.want, c.want.Data)
			}
			if content.Size != 22 || content.Version == "" {
				t.Errorf("%s: size %d, version %q", name, content.Size, content.Version)
			}
		}
	})
}

func TestBinaryFilesAreFound(t *testing.T) {
	w := mcptest.NewWorkspace(t)
	for content, want := range map[string]bool{"text ü": false, "": false, "a\x00b": true, "latin \xfc": true, "\x89PNG\r\n": true} {
		put(t, w, "f", content, 0o600)
		r := lines(1, 10, 100)
		read, err := in(w).Read(t.Context(), "f", r)
		if err != nil {
			t.Fatal(err)
		}
		if got := read.Part(r, 10, 100); got.Binary != want {
			t.Errorf("%q is binary: %t", content, got.Binary)
		}
	}
}

func TestWhatIsNoFileIsRefused(t *testing.T) {
	forEachShell(t, func(t *testing.T, w *mcptest.Workspace) {
		for name, link := range map[string]string{"dangling": "nowhere", "loop": "loop", "device": "/dev/zero", "dir": "/etc"} {
			if err := os.Symlink(link, filepath.Join(w.Home, name)); err != nil {
				t.Fatal(err)
			}
		}
		if err := syscall.Mkfifo(filepath.Join(w.Home, "pipe"), 0o600); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]string{
			"missing": "there is no", "dangling": "there is no", "loop": "there is no", "dir": "is a directory", "~": "is a directory",
			"pipe": "is not a regular file", "device": "is not a regular file", "/dev/tcp": "there is no", "": "path is required",
		} {
			_, err := in(w).Read(polltest.Context(t), path, lines(1, 1, 1))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("reading %q: %v, want %q", path, err, want)
			}
			if want == "there is no" {
				continue
			}
			if err := in(w).Write(polltest.Context(t), path, nil, ""); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("writing %q: %v, want %q", path, err, want)
			}
		}
	})
}

func TestWriteReplacesAtOnce(t *testing.T) {
	forEachShell(t, func(t *testing.T, w *mcptest.Workspace) {
		ctx := polltest.Context(t)
		content := "a\x00b\xff" + strings.Repeat("x", 200_000)
		if err := in(w).Write(ctx, "new/dir/file", []byte(content), ""); err != nil {
			t.Fatal(err)
		}
		wantContent(t, filepath.Join(w.Home, "new/dir/file"), content)

		path := put(t, w, "script.sh", "old", 0o750)
		if err := os.Symlink("script.sh", filepath.Join(w.Home, "link")); err != nil {
			t.Fatal(err)
		}
		if err := in(w).Write(ctx, "link", []byte("new"), ""); err != nil {
			t.Fatal(err)
		}
		wantContent(t, path, "new")
		info, err := os.Lstat(path)
		if err != nil || info.Mode() != 0o750 {
			t.Errorf("the mode is %s: %v", info.Mode(), err)
		}
		if info, err := os.Lstat(filepath.Join(w.Home, "link")); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("the link is %v: %v", info, err)
		}
		if left, err := filepath.Glob(filepath.Join(w.Home, ".coder-k8s.*")); err != nil || len(left) > 0 {
			t.Errorf("left are %v: %v", left, err)
		}
	})
}

// If the connection breaks, the standard input ends early.
func TestAWriteThatIsCutChangesNothing(t *testing.T) {
	w := mcptest.NewWorkspace(t)
	path := put(t, w, "file", "old", 0o600)
	cut := &cutting{Workspace: w}
	err := inside.Workspace{Exec: cut.Exec, Namespace: "coder", Name: "dev"}.Write(t.Context(), "file", []byte("new content"), "")
	if err == nil || !strings.Contains(err.Error(), "not all of the content arrived") {
		t.Errorf("the error is %v", err)
	}
	wantContent(t, path, "old")
	if files, err := os.ReadDir(w.Home); err != nil || len(files) != 1 {
		t.Errorf("there are %v: %v", files, err)
	}
}

func TestAnEditMustMatchOnce(t *testing.T) {
	w := mcptest.NewWorkspace(t)
	path := put(t, w, "main.py", "a = 1\nb = 1\n# ü\xff\n", 0o600)
	for name, c := range map[string]struct {
		edit inside.Edit
		want string
	}{
		"twice":   {inside.Edit{Old: "= 1", New: "= 2"}, "2 times"},
		"nowhere": {inside.Edit{Old: "c = 1", New: "x"}, "must match exactly"},
		"empty":   {inside.Edit{Old: "", New: "x"}, "oldText is required"},
		"same":    {inside.Edit{Old: "a", New: "a"}, "the same"},
		"version": {inside.Edit{Old: "a = 1", New: "x", Version: "1 2"}, "has changed"},
		"large":   {inside.Edit{Old: "a = 1", New: strings.Repeat("x", inside.MaxFileBytes)}, "would have"},
	} {
		if _, err := in(w).Apply(t.Context(), "main.py", c.edit); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	edited, err := in(w).Apply(t.Context(), "main.py", inside.Edit{Old: "= 1", New: "= $2\\1", All: true})
	if err != nil || edited.Count != 2 {
		t.Fatalf("%+v %v", edited, err)
	}
	if err := in(w).Write(t.Context(), "main.py", edited.Content, edited.Version); err != nil {
		t.Fatal(err)
	}
	wantContent(t, path, "a = $2\\1\nb = $2\\1\n# ü\xff\n")

	put(t, w, "dos.txt", "a\r\nb\r\n", 0o600)
	if _, err := in(w).Apply(t.Context(), "dos.txt", inside.Edit{Old: "a\nb", New: "x"}); err == nil || !strings.Contains(err.Error(), "CRLF") {
		t.Errorf("CRLF: %v", err)
	}
	put(t, w, "bin", "a\x00", 0o600)
	if _, err := in(w).Apply(t.Context(), "bin", inside.Edit{Old: "a", New: "x"}); err == nil || !strings.Contains(err.Error(), "binary") {
		t.Errorf("binary: %v", err)
	}
}

func TestAnEditFailsIfTheFileChangesMeanwhile(t *testing.T) {
	w := mcptest.NewWorkspace(t)
	path := put(t, w, "file", "one", 0o600)
	edited, err := in(w).Apply(t.Context(), "file", inside.Edit{Old: "one", New: "two"})
	if err != nil {
		t.Fatal(err)
	}
	put(t, w, "file", "One", 0o600)
	if err := in(w).Write(t.Context(), "file", edited.Content, edited.Version); err == nil || !strings.Contains(err.Error(), "was changed in the meantime") {
		t.Errorf("the error is %v", err)
	}
	wantContent(t, path, "One")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := in(w).Write(t.Context(), "file", edited.Content, edited.Version); err == nil || !strings.Contains(err.Error(), "was changed in the meantime") {
		t.Errorf("a file that is gone: %v", err)
	}
}

func TestList(t *testing.T) {
	w := mcptest.NewWorkspace(t)
	for _, dir := range []string{"src/deep", ".git"} {
		if err := os.MkdirAll(filepath.Join(w.Home, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, w, "src/a b.py", "12345", 0o600)
	put(t, w, "src/line\nbreak", "", 0o600)
	if err := os.Symlink("/", filepath.Join(w.Home, "src/root")); err != nil {
		t.Fatal(err)
	}
	types := func(depth int) map[string]string {
		entries, more, err := in(w).List(t.Context(), ".", depth)
		if err != nil || more {
			t.Fatalf("%v %t", err, more)
		}
		found := map[string]string{}
		for _, e := range entries {
			found[e.Path] = e.Type()
			if e.Path == "src/a b.py" && e.Size != 5 {
				t.Errorf("%+v", e)
			}
		}
		return found
	}
	if got := types(1); len(got) != 2 || got["src"] != "directory" || got[".git"] != "directory" {
		t.Errorf("one level is %v", got)
	}
	if got := types(3); got["src/a b.py"] != "file" || got["src/deep"] != "directory" || got["src/root"] != "symlink" || got["src/line\nbreak"] != "file" || len(got) != 6 {
		t.Errorf("three levels are %v", got)
	}
	for path, want := range map[string]string{"src/a b.py": "is not a directory", "nowhere": "there is no"} {
		if _, _, err := in(w).List(t.Context(), path, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestAnImageWithoutProgramsIsReported(t *testing.T) {
	w := mcptest.NewWorkspace(t)
	w.Env = []string{"PATH=/nowhere"}
	w.Shell = []string{"/bin/sh"}
	if _, _, err := in(w).List(t.Context(), ".", 1); err == nil || !strings.Contains(err.Error(), "coreutils or BusyBox") {
		t.Errorf("the error is %v", err)
	}
}

type cutting struct{ *mcptest.Workspace }

func (c *cutting) Exec(ctx context.Context, namespace, workspace, agent string, command remoteexec.Command) error {
	command.Stdin = io.LimitReader(command.Stdin, 3)
	return c.Workspace.Exec(ctx, namespace, workspace, agent, command)
}
