package manifests

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// kustomization contains the references of a kustomization to other files.
type kustomization struct {
	Resources  []string `json:"resources"`
	Components []string `json:"components"`
	Patches    []struct {
		Path string `json:"path"`
	} `json:"patches"`
	Generators []struct {
		Files []string `json:"files"`
	} `json:"configMapGenerator"`
}

// reach adds all files that a kustomization references, directly or indirectly.
func reach(t *testing.T, directory string, reached map[string]bool) {
	t.Helper()
	path := filepath.Join(directory, "kustomization.yaml")
	if reached[path] {
		return
	}
	reached[path] = true
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var k kustomization
	if err := yaml.Unmarshal(raw, &k); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	named := append(k.Resources, k.Components...)
	for _, patch := range k.Patches {
		if patch.Path != "" {
			named = append(named, patch.Path)
		}
	}
	for _, generator := range k.Generators {
		for _, file := range generator.Files {
			_, path, renamed := strings.Cut(file, "=")
			if !renamed {
				path = file
			}
			named = append(named, path)
		}
	}
	for _, name := range named {
		target := filepath.Join(directory, name)
		info, err := os.Stat(target)
		switch {
		case err != nil:
			t.Errorf("%s names what is not there: %v", path, err)
		case info.IsDir():
			reach(t, target, reached)
		default:
			reached[target] = true
		}
	}
}

// TestEveryFileIsUsed checks that every manifest is part of an installation.
func TestEveryFileIsUsed(t *testing.T) {
	reached := map[string]bool{}
	for _, directory := range installations() {
		reach(t, directory, reached)
	}
	// These are applied in addition to an installation.
	for _, name := range []string{"legacy-impersonation", "mcp-inside", "monitoring"} {
		if directory := filepath.Join(configDir, name); exists(directory) {
			reach(t, directory, reached)
		}
	}
	err := filepath.WalkDir(configDir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "samples":
			return fs.SkipDir // test/admission and test/e2e apply them.
		case !entry.IsDir() && filepath.Ext(path) == ".yaml" && !reached[path]:
			t.Errorf("no installation uses %s", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestEveryObjectIsLabelled checks the label by which our objects are found and
// removed.
func TestEveryObjectIsLabelled(t *testing.T) {
	eachInstallation(t, func(t *testing.T, _ string, objects rendering) {
		seen := map[string]bool{}
		for _, object := range objects {
			if object.GetLabels()[labelName] != program {
				t.Errorf("%s has no label %s=%s", describe(object), labelName, program)
			}
			if seen[describe(object)] {
				t.Errorf("%s is there twice", describe(object))
			}
			seen[describe(object)] = true
		}
	})
}
