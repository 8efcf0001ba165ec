package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBlocks(t *testing.T) {
	tests := map[string]struct {
		markdown string
		want     []TutorialBlock
		err      string
	}{
		"none":            {"# A title\n", nil, ""},
		"commands":        {"a\n```sh\nls\npwd\n```\nb\n", []TutorialBlock{{3, "ls\npwd\n"}}, ""},
		"what is printed": {"```console\n$ ls\n```\n```\nx\n```\n", nil, ""},
		"two":             {"```sh\nls\n```\n\n```sh\npwd\n```\n", []TutorialBlock{{2, "ls\n"}, {6, "pwd\n"}}, ""},
		"no end":          {"a\n```sh\nls\n", nil, "begins in line 2"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := TutorialBlocks(tc.markdown)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("the error is %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestScriptEndsAtTheFirstFailure(t *testing.T) {
	script := TutorialScript("a.md", []TutorialBlock{{3, "x=1\n"}, {7, "test \"$x\" = 2\n"}, {9, "echo never\n"}})
	out, err := exec.CommandContext(t.Context(), "bash", "-c", script).CombinedOutput()
	if err == nil || string(out) != "== a.md:3\n== a.md:7\n" {
		t.Errorf("%v, printed %q", err, out)
	}
}

func TestNamespaces(t *testing.T) {
	got := TutorialNamespaces([]TutorialBlock{
		{3, "kubectl create namespace one\nkubectl -n one get pods\n"},
		{7, "kubectl -n one delete pod a\necho kubectl create namespace none\nkubectl create namespace two\n"},
	})
	if diff := cmp.Diff([]string{"one", "two"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTutorialsCanBeRun looks at each tutorial without a cluster: it has commands,
// and they are commands of a shell.
func TestTutorialsCanBeRun(t *testing.T) {
	files, err := filepath.Glob("../../docs/tutorials/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no tutorials: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		blocks, err := TutorialBlocks(string(text))
		if err != nil || len(blocks) == 0 {
			t.Errorf("%s has %d blocks of commands: %v", file, len(blocks), err)
			continue
		}
		for _, ns := range TutorialNamespaces(blocks) {
			if !strings.Contains(string(text), "kubectl delete namespace "+ns) {
				t.Errorf("%s makes namespace %s and does not delete it", file, ns)
			}
		}
		check := exec.CommandContext(t.Context(), "bash", "-n")
		check.Stdin = strings.NewReader(TutorialScript(filepath.Base(file), blocks))
		if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v %s", file, err, out)
		}
		for _, block := range blocks {
			if strings.HasPrefix(block.Text, "$ ") {
				t.Errorf("%s:%d begins with a prompt: leave it out, or mark the block as console", file, block.Line)
			}
		}
	}
}
