// Package cluster checks the go.mod files of the programs that hack builds.
package cluster

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// versions returns the module versions that the go.mod file in the directory requires.
func versions(t *testing.T, directory string) map[string]string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json", directory+"/go.mod")
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("go mod edit -json %s/go.mod: %v", directory, err)
	}
	var file struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(output, &file); err != nil {
		t.Fatalf("go mod edit -json %s/go.mod: %v", directory, err)
	}
	required := map[string]string{}
	for _, module := range file.Require {
		required[module.Path] = module.Version
	}
	return required
}

// shared returns what matches the modules that most others import. A package is compiled again if
// the version of any of its dependencies differs, so a different version of one of these modules
// costs minutes. build.sh gives Coder, which has its own go.mod, the operator's versions of them.
func shared(t *testing.T) *regexp.Regexp {
	t.Helper()
	script, err := os.ReadFile("build.sh")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^SHARED='(.+)'$`).FindSubmatch(script)
	if found == nil {
		t.Fatal("build.sh has no line SHARED='...'")
	}
	return regexp.MustCompile(`^(` + string(found[1]) + `)(/|$)`)
}

func TestProgramsShareTheLibrariesOfTheOperator(t *testing.T) {
	operator, modules := versions(t, "../.."), shared(t)
	for _, directory := range []string{"modules/kube", "modules/kube-router", "modules/terraform", "modules/provider", "modules/helm", "modules/prometheus"} {
		t.Run(directory, func(t *testing.T) {
			compared := 0
			for module, version := range versions(t, directory) {
				want, ok := operator[module]
				if !ok || !modules.MatchString(module) {
					continue
				}
				compared++
				if version != want {
					t.Errorf("%s is %s, but %s in the operator's go.mod, so that it is compiled twice: cd hack/cluster/%s && go get %s@%s",
						module, version, want, directory, module, want)
				}
			}
			if compared == 0 {
				t.Error("no module is shared with the operator")
			}
		})
	}
}

func TestSettingsNameThePinnedVersions(t *testing.T) {
	settings, err := os.ReadFile("settings.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, pinned := range []struct{ directory, module, setting string }{
		{"modules/kube", "k8s.io/kubernetes", "KUBE_VERSION"},
		{"modules/provider", "github.com/coder/terraform-provider-coder/v2", "PROVIDER_VERSION"},
		{"modules/terraform", "github.com/hashicorp/terraform", "TERRAFORM_VERSION"},
		{"modules/provider", "github.com/hashicorp/terraform-provider-kubernetes", "KUBERNETES_PROVIDER_VERSION"},
	} {
		version := strings.TrimPrefix(versions(t, pinned.directory)[pinned.module], "v")
		if version == "" || !regexp.MustCompile(`(?m)^`+pinned.setting+`=`+regexp.QuoteMeta(version)+`\b`).Match(settings) {
			t.Errorf("%s/go.mod requires %s %s, but settings.sh says something else for %s", pinned.directory, pinned.module, version, pinned.setting)
		}
	}
}
