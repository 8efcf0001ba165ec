package release

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow has the tested fields of a GitHub workflow.
type workflow struct {
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]struct {
		Uses        string            `json:"uses"`
		Needs       any               `json:"needs"`
		Permissions map[string]string `json:"permissions"`
		Steps       []struct {
			Uses string            `json:"uses"`
			Run  string            `json:"run"`
			With map[string]any    `json:"with"`
			Env  map[string]string `json:"env"`
		} `json:"steps"`
	} `json:"jobs"`
}

func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	files, err := filepath.Glob(root + "/.github/workflows/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]workflow{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var w workflow
		if err := yaml.Unmarshal(raw, &w); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(file)] = w
	}
	if len(all) != 4 {
		t.Fatalf("workflows %v, want ci.yaml, nightly.yaml, release.yaml and scan.yaml", slices.Collect(maps.Keys(all)))
	}
	return all
}

// TestActionsArePinned, because a tag of an action can be moved and a commit cannot.
func TestActionsArePinned(t *testing.T) {
	pinned := regexp.MustCompile(`^[\w-]+/[\w-]+@[0-9a-f]{40}$`)
	versions := map[string]bool{}
	for name, w := range workflows(t) {
		for job, j := range w.Jobs {
			if j.Uses != "" && !strings.HasPrefix(j.Uses, "./") {
				t.Errorf("%s: job %s is %s of another repository", name, job, j.Uses)
			}
			for _, step := range j.Steps {
				if step.Uses != "" && !pinned.MatchString(step.Uses) {
					t.Errorf("%s: job %s uses %s, which is not pinned to a commit", name, job, step.Uses)
				}
				if strings.HasPrefix(step.Uses, "actions/setup-go@") {
					version, _ := step.With["go-version"].(string)
					versions[version] = true
				}
				if strings.HasPrefix(step.Uses, "actions/checkout@") && step.With["persist-credentials"] != false {
					t.Errorf("%s: job %s leaves a token of GitHub in the clone", name, job)
				}
			}
		}
	}
	if len(versions) != 1 || versions[""] {
		t.Errorf("the workflows build with the Go versions %v, want one", slices.Collect(maps.Keys(versions)))
	}
}

// TestRightsOfWorkflows checks that only the job that publishes has write permissions.
func TestRightsOfWorkflows(t *testing.T) {
	for name, w := range workflows(t) {
		if !maps.Equal(w.Permissions, map[string]string{"contents": "read"}) {
			t.Errorf("%s: permissions %v, want contents: read", name, w.Permissions)
		}
		for job, j := range w.Jobs {
			writes := name == "release.yaml" && job == "release"
			if len(j.Permissions) > 0 != writes {
				t.Errorf("%s: job %s has the permissions %v of its own", name, job, j.Permissions)
			}
		}
	}
}

// TestOnlyTheClustersAreRoot checks that only the end-to-end tests run as root.
func TestOnlyTheClustersAreRoot(t *testing.T) {
	for name, w := range workflows(t) {
		for job, j := range w.Jobs {
			for _, step := range j.Steps {
				if run := strings.TrimSpace(step.Run); strings.Contains(run, "sudo") && !strings.HasSuffix(run, ".ci/run test-e2e") && !strings.HasSuffix(run, "make test-nightly") {
					t.Errorf("%s: job %s runs as root: %s", name, job, step.Run)
				}
			}
		}
	}
}

// TestReleasesAreMerged checks that the job that publishes waits for the job that checks that the
// tag's commit is part of main, and for the scan of the image.
func TestReleasesAreMerged(t *testing.T) {
	jobs := workflows(t)["release.yaml"].Jobs
	needs, _ := jobs["release"].Needs.([]any)
	for _, job := range []string{"merged", "ci", "nightly", "scan"} {
		if !slices.Contains(needs, any(job)) {
			t.Errorf("the release does not wait for %s: %v", job, needs)
		}
	}
	repository := t.TempDir()
	git := func(args ...string) string {
		return strings.TrimSpace(command(t, repository, nil, "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...))
	}
	git("init", "--quiet", "--initial-branch=main")
	git("commit", "--quiet", "--allow-empty", "--message=merged")
	merged := git("rev-parse", "HEAD")
	git("commit", "--quiet", "--allow-empty", "--message=later")
	git("checkout", "--quiet", "-b", "aside")
	git("commit", "--quiet", "--allow-empty", "--message=not merged")
	script, err := filepath.Abs(root + "/hack/release/merged.sh")
	if err != nil {
		t.Fatal(err)
	}
	command(t, repository, nil, script, merged, "main")
	refused := exec.CommandContext(t.Context(), script, git("rev-parse", "HEAD"), "main")
	refused.Dir = repository
	if out, err := refused.CombinedOutput(); err == nil || !strings.Contains(string(out), "is not part of main") {
		t.Errorf("a commit that was not merged: %v, %s", err, out)
	}
}

// TestDependenciesAreUpdated checks that newer commits of actions are proposed automatically.
func TestDependenciesAreUpdated(t *testing.T) {
	raw, err := os.ReadFile(root + "/.github/dependabot.yml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Updates []struct {
			Ecosystem string `json:"package-ecosystem"`
		} `json:"updates"`
	}
	if err := yaml.Unmarshal(raw, &config); err != nil || len(config.Updates) == 0 || config.Updates[0].Ecosystem != "github-actions" {
		t.Errorf("%v: %+v", err, config)
	}
}

// TestStepsRunWhatIsThere checks that the scripts in steps exist, and that steps do not expand the
// names of tags or branches in a shell.
func TestStepsRunWhatIsThere(t *testing.T) {
	script := regexp.MustCompile(`(?:hack|\.ci)/[\w/.-]+`)
	found := 0
	for name, w := range workflows(t) {
		for job, j := range w.Jobs {
			for _, step := range j.Steps {
				if strings.Contains(step.Run, "${{") {
					t.Errorf("%s: job %s writes an expression into a script: hand it over in env", name, job)
				}
				for _, path := range script.FindAllString(step.Run, -1) {
					found++
					info, err := os.Stat(filepath.Join(root, path))
					if err != nil || info.Mode()&0o111 == 0 {
						t.Errorf("%s: job %s runs %s, which is not there or cannot be executed", name, job, path)
					}
				}
			}
		}
	}
	if found < 4 {
		t.Errorf("the workflows run only %d scripts", found)
	}
}
