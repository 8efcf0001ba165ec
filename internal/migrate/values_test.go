package migrate

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coder-k8s/coder-k8s/internal/cli"
)

const first = `# of the company
coder:
  env:
  - name: A
    value: "1"
  - name: B
  image:
    tag: v1
    repo: r
gone:
  below: 1
`

const second = `coder:
  image:
    tag: v2
gone: null
`

func TestALaterFileStandsOverAnEarlierOne(t *testing.T) {
	below, err := ParseValues("first.yaml", []byte(first))
	if err != nil {
		t.Fatal(err)
	}
	top, err := ParseValues("second.yaml", []byte(second))
	if err != nil {
		t.Fatal(err)
	}
	all := below.Over(top)
	want := []string{"coder.env", "coder.image.repo", "coder.image.tag", "gone"}
	if diff := cmp.Diff(want, all.Leaves(func(string) bool { return false })); diff != "" {
		t.Errorf("leaves (-want +got):\n%s", diff)
	}
	if tag, _ := all.Get("coder.image.tag"); tag != "v2" {
		t.Errorf("tag %v, want that of the later file", tag)
	}
	// null would remove a default of the chart.
	if gone, has := all.Get("gone"); gone != nil || !has {
		t.Errorf("gone is %v (%v), want null", gone, has)
	}
	for path, want := range map[string]string{
		"coder.image.tag": "second.yaml:3", "coder.image.repo": "first.yaml:9", "coder.env[1].name": "first.yaml:6",
		"coder.env[1].value": "first.yaml:6", "coder.env[1]": "first.yaml:6", "coder.nothing": "second.yaml:1",
	} {
		if got := all.At(path).String(); got != want {
			t.Errorf("%s is at %s, want %s", path, got, want)
		}
	}
	if tag, _ := below.Get("coder.image.tag"); tag != "v1" {
		t.Errorf("the earlier file was changed: tag %v", tag)
	}
}

// In a later file as in the first one, null removes the default of the chart.
func TestNullRemovesADefault(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first.yaml"), filepath.Join(dir, "second.yaml")
	write(t, first, "coder:\n  securityContext: {readOnlyRootFilesystem: true}\n  ingress: {enable: true, host: coder.example.com}\n")
	write(t, second, "coder:\n  securityContext: {runAsUser: null}\n  ingress: {enable: null}\n")
	for name, args := range map[string][]string{
		"in a later file":    {"-f", first, "-f", second},
		"in an earlier file": {"-f", second, "-f", first},
		"in the only file":   {"-f", second},
	} {
		t.Run(name, func(t *testing.T) {
			code, manifest, said := migrate(t, "", append([]string{"helm", "-n", "team"}, args...)...)
			if code != cli.ExitOK {
				t.Errorf("exit code %d:\n%s", code, said)
			}
			if !strings.Contains(manifest, "platformAssignedUser: true") || strings.Contains(manifest, "runAsUser") || strings.Contains(manifest, "null") {
				t.Errorf("the default of runAsUser was not removed:\n%s", manifest)
			}
			if exposed := strings.Contains(manifest, "expose:"); exposed != (name == "in an earlier file") {
				t.Errorf("the Ingress is enabled: %v\n%s", exposed, manifest)
			}
		})
	}
}

func TestWhatCannotBeReadIsNamedByItsLine(t *testing.T) {
	for text, want := range map[string]string{
		"coder:\n  env: [\n":               "f.yaml:",
		"coder:\n\tenv: hunter2\n":         "f.yaml:2:",
		"- a\n- hunter2\n":                 "f.yaml:1: is not a mapping",
		"a: 1\nb: hunter2: c\n":            "f.yaml:2:",
		"coder: &a\n  b: 1\nc: *hunter2\n": "f.yaml",
	} {
		_, err := ParseValues("f.yaml", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "hunter2: ") {
			t.Errorf("%q: error %v, want one that begins with %s", text, err, want)
		}
	}
}

func TestEmptyFiles(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "null\n", "{}\n"} {
		set, err := ParseValues("f.yaml", []byte(text))
		if err != nil || len(set.Content) != 0 {
			t.Errorf("%q: %v, %v", text, set.Content, err)
		}
	}
}
