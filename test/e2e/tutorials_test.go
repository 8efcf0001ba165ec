//go:build e2e

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/test/docs"
)

// testTutorials runs every command of docs/tutorials as a reader does: from the
// repository's directory, with an empty database and what was built in PATH. They run one
// after the other: a command of a reader does not wait for a machine with several new Coders.
func testTutorials(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "docs/tutorials/*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no tutorials: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".md")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			// The limits are those of a reader, whose cluster has a machine of its own: 3m becomes 13m.
			patient := regexp.MustCompile(`--timeout=(\d+m)`).ReplaceAllString(withLoadedImage(string(text)), "--timeout=1${1}")
			blocks, err := docs.TutorialBlocks(strings.ReplaceAll(patient, publicWorkspaceImage, os.Getenv("E2E_WORKSPACE_IMAGE")))
			if err != nil {
				t.Fatal(err)
			}
			// A tutorial deletes its objects. A tutorial that failed may not have done
			// so.
			for _, ns := range docs.TutorialNamespaces(blocks) {
				explain(t, ns)
				t.Cleanup(func() { cleanup("delete", "namespace", ns, "--ignore-not-found", "--timeout=5m") })
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "bash", "-c", docs.TutorialScript(name, blocks))
			// So that bash ends the tutorial's background processes.
			cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
			cmd.WaitDelay = 10 * time.Second
			cmd.Dir = root
			cmd.Env = append(os.Environ(),
				"DATABASE_URL="+database(t, "tutorial-"+name),
				"PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			t.Logf("\n%s", out)
			if err != nil {
				t.Fatalf("the commands after the last line that begins with == fail: %v", err)
			}
		})
	}
}
