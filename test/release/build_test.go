package release

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	root    = "../.."
	version = "v9.8.7-rc.6"
	commit  = "0123456789ab"
	date    = "2026-01-02T03:04:05Z"
)

// command runs a program in a directory for at most ten minutes and returns what it printed.
func command(t *testing.T, directory string, environment []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = directory
	c.Env = append(os.Environ(), environment...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// needsGit skips the test if the source is not a clone: a release is built from a clone.
func needsGit(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(root + "/.git"); err != nil {
		t.Skip("this is no clone of the repository")
	}
}

// plugin builds kubectl-coder from the source in directory, as the release does, and returns its path.
func plugin(t *testing.T, directory string) string {
	t.Helper()
	out := t.TempDir()
	command(t, directory, nil, "make", "--no-print-directory", "plugin", "BINARY="+out+"/coder-k8s", "VERSION="+version, "COMMIT="+commit, "DATE="+date)
	return filepath.Join(out, "kubectl-coder")
}

// source copies the repository's files, those that are not committed yet too, into a directory without git.
func source(t *testing.T) string {
	t.Helper()
	directory := t.TempDir()
	files := command(t, root, nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	for name := range strings.SplitSeq(strings.TrimSuffix(files, "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // Removed, and not committed yet.
		}
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(directory, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, info.Mode()); err != nil {
			t.Fatal(err)
		}
	}
	return directory
}

func sum(t *testing.T, path string) string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// TestSameCommitSameBytes builds the plugin in the repository and in a copy elsewhere that is none, as from an archive of the
// source. The operator is built with the same flags.
func TestSameCommitSameBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("it links kubectl-coder twice")
	}
	needsGit(t)
	here := plugin(t, root)
	if there := plugin(t, source(t)); sum(t, here) != sum(t, there) {
		t.Error("the same source in two directories gives two different programs: go version -m says how they differ")
	}
	if said, want := command(t, ".", nil, here, "--version"), version+" (commit "+commit+" of "+date; !strings.Contains(said, want) {
		t.Errorf("kubectl-coder --version says %q, want %q", said, want)
	}
}

func TestBuildsAreEqualInMakefile(t *testing.T) {
	makefile, err := os.ReadFile(root + "/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	builds := 0
	for line := range strings.Lines(string(makefile)) {
		if !strings.Contains(line, "go build") {
			continue
		}
		builds++
		// The operator leaves out optional parts of its libraries.
		if !strings.HasPrefix(strings.Replace(line, "-tags $(TAGS) ", "", 1), "\tCGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o ") {
			t.Errorf("the Makefile builds in another way than the rest: %s", line)
		}
	}
	if builds != 2 {
		t.Errorf("the Makefile builds %d programs, want two", builds)
	}
}

// TestLintersSeeWhatIsBuilt compares the build tags of the linters with those of the programs.
func TestLintersSeeWhatIsBuilt(t *testing.T) {
	makefile, err := os.ReadFile(root + "/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, tags, _ := strings.Cut(string(makefile), "\nTAGS := ")
	tags, _, found := strings.Cut(tags, "\n")
	if !found {
		t.Fatal("the Makefile has no TAGS")
	}
	linters, err := os.ReadFile(root + "/.golangci.yml")
	if err != nil {
		t.Fatal(err)
	}
	if want := "build-tags: [e2e, conformance, " + strings.ReplaceAll(tags, ",", ", ") + "]"; !strings.Contains(string(linters), want) {
		t.Errorf(".golangci.yml does not contain %q, but the Makefile's TAGS are %s", want, tags)
	}
}

// TestManifestsNameTheRelease renders the manifests as the release does.
func TestManifestsNameTheRelease(t *testing.T) {
	if os.Getenv("TOOLS_DIR") == "" {
		t.Skip("TOOLS_DIR is not set: make test says where helm is")
	}
	digest := "sha256:" + strings.Repeat("ab", 32)
	for _, test := range []struct {
		name        string
		environment []string
		want        string
	}{
		{"tag", []string{"VERSION=" + version, "DIGEST="}, `image: "ghcr.io/coder-k8s/coder-k8s:` + version + `"`},
		{"digest", []string{"VERSION=" + version, "DIGEST=" + digest}, `image: "ghcr.io/coder-k8s/coder-k8s:` + version + "@" + digest + `"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			out := t.TempDir()
			command(t, root, test.environment, "hack/manifests.sh", "--all", out)
			files, err := filepath.Glob(out + "/install*.yaml")
			if err != nil {
				t.Fatal(err)
			}
			if len(files) < 5 {
				t.Fatalf("only %v were made", files)
			}
			for _, file := range files {
				raw, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				images := 0
				for line := range strings.Lines(string(raw)) {
					if line = strings.TrimSpace(line); strings.HasPrefix(line, "image: ") {
						images++
						if line != test.want {
							t.Errorf("%s: %q, want %q", filepath.Base(file), line, test.want)
						}
					}
				}
				if images == 0 {
					t.Errorf("%s names no image", filepath.Base(file))
				}
			}
		})
	}
}

// TestChartNamesTheRelease packs the chart as the release does and renders what was packed.
func TestChartNamesTheRelease(t *testing.T) {
	tools := os.Getenv("TOOLS_DIR")
	if tools == "" {
		t.Skip("TOOLS_DIR is not set: make test says where helm is")
	}
	var sums []string
	for range 2 {
		out := t.TempDir()
		command(t, root, []string{"SOURCE_DATE_EPOCH=1700000000"}, tools+"/helm", "package", "charts/coder-k8s",
			"--version", strings.TrimPrefix(version, "v"), "--app-version", version, "--destination", out)
		chart := filepath.Join(out, "coder-k8s-"+strings.TrimPrefix(version, "v")+".tgz")
		sums = append(sums, sum(t, chart))
		rendered := command(t, ".", nil, tools+"/helm", "template", "coder-k8s", chart)
		if want := "image: ghcr.io/coder-k8s/coder-k8s:" + version; !strings.Contains(rendered, want) {
			t.Errorf("the chart does not say %q", want)
		}
	}
	if sums[0] != sums[1] {
		t.Error("the same chart gives two different packages")
	}
}

// TestReleaseRefuses calls the script with invalid versions and states; it must fail before it
// builds anything.
func TestReleaseRefuses(t *testing.T) {
	needsGit(t)
	for _, test := range []struct{ version, want string }{
		{"", "is no version"},
		{"1.2.3", "is no version"},
		{"v1.2", "is no version"},
		{"v1.2.3; rm -rf /", "is no version"},
		{"v01.2.3", "is no version"},
		{"v9999.0.0", "not committed|has no tag v9999.0.0"},
	} {
		t.Run(test.version, func(t *testing.T) {
			c := exec.CommandContext(t.Context(), "hack/release/release.sh", test.version)
			c.Dir = root
			out, err := c.CombinedOutput()
			if err == nil {
				t.Fatalf("it made a release: %s", out)
			}
			for want := range strings.SplitSeq(test.want, "|") {
				if strings.Contains(string(out), want) {
					return
				}
			}
			t.Errorf("it says %q, want %q", out, test.want)
		})
	}
}
