//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// sizedMain is a template with a parameter and two variables.
const sizedMain = `terraform {
  required_providers {
    coder = {
      source  = "coder/coder"
      version = "2.13.1"
    }
  }
}

variable "greeting" {
  type    = string
  default = "hello"
}

variable "password" {
  type    = string
  default = "none"
}

data "coder_parameter" "size" {
  name    = "size"
  type    = "number"
  default = "1"
  mutable = true
}

data "coder_workspace" "me" {}

resource "terraform_data" "sized" {
  count = data.coder_workspace.me.start_count
  input = "${var.greeting} ${data.coder_parameter.size.value}"
}
`

// sized is the manifest of that template with more files and more of its spec.
func sized(t *testing.T, files map[string]string, more map[string]any) string {
	t.Helper()
	all := map[string]string{"main.tf": sizedMain}
	for name, content := range files {
		all[name] = content
	}
	spec := map[string]any{"organization": "coder", "files": all}
	for name, value := range more {
		spec[name] = value
	}
	manifest, err := json.Marshal(map[string]any{
		"apiVersion": "aggregation.coder.com/v1alpha1", "kind": "CoderTemplate",
		"metadata": map[string]any{"name": "coder.sized", "namespace": sampleNamespace}, "spec": spec,
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(manifest)
}

// sizedTemplate is where the template is found.
var sizedTemplate = []string{"-n", sampleNamespace, "ctpl", "coder.sized"}

// sizedField reads a field of the template's status.
func sizedField(t *testing.T, name string) string {
	t.Helper()
	return field(get(t, sizedTemplate...), "status", name)
}

// becomesActive waits until another version than one is active, and gives it.
func becomesActive(t *testing.T, than string) string {
	t.Helper()
	var active string
	eventually(t, time.Minute, "a new version is active", func() error {
		object := get(t, sizedTemplate...)
		ready, reason, message := condition(object, "Ready")
		if active = field(object, "status", "activeVersionID"); ready != "True" || active == than || active == "" {
			return fmt.Errorf("version %s is active, Ready=%s %s: %s", active, ready, reason, message)
		}
		return nil
	})
	return active
}

// testTemplates follows a template through its versions.
func testTemplates(t *testing.T) {
	explain(t, sampleNamespace)
	client := login(t, sampleNamespace, "coder")
	start := time.Now()
	apply(t, sized(t, map[string]string{"notes/old.md": "old"}, nil))
	t.Logf("kubectl apply came back after %.1f s", time.Since(start).Seconds())
	first := becomesActive(t, "")
	second := ""

	t.Run("the same is not uploaded again", func(t *testing.T) {
		before := written(t)
		apply(t, sized(t, map[string]string{"notes/old.md": "old"}, nil))
		if after := written(t); after != before {
			t.Errorf("Coder had %s, and has %s", before, after)
		}
	})
	t.Run("changed, and a file removed", func(t *testing.T) {
		w := watch(t, "ctpl", "coder.sized", "-o", `jsonpath={.status.activeVersionID} {.status.latestVersionStatus}{"\n"}`)
		apply(t, sized(t, map[string]string{"notes/new.md": "new"}, nil))
		second = becomesActive(t, first)
		if text := w.text(); !strings.Contains(text, first+" pending") && !strings.Contains(text, first+" running") {
			t.Errorf("nobody was told that the first version is active while the second one is built:\n%s", text)
		}
		files := kubectl(t, append([]string{"get", "-o", "jsonpath={.spec.files}"}, sizedTemplate...)...)
		archive := kubectl(t, "get", "--raw", aggregatedAPI+"/codertemplates/coder.sized/files")
		for where, text := range map[string]string{"spec.files": files, "the archive": archive} {
			if strings.Contains(text, "notes/old.md") || !strings.Contains(text, "notes/new.md") {
				t.Errorf("%s has not just the new file:\n%q", where, text)
			}
		}
	})
	t.Run("a version that fails", func(t *testing.T) { testFailedVersion(t, second) })
	t.Run("rolled back", func(t *testing.T) {
		kubectl(t, append([]string{"patch", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"versionID":%q}}`, first)}, sizedTemplate...)...)
		if now := becomesActive(t, second); now != first {
			t.Errorf("version %s is active, not the first one, %s", now, first)
		}
		if files := kubectl(t, append([]string{"get", "-o", "jsonpath={.spec.files}"}, sizedTemplate...)...); !strings.Contains(files, "notes/old.md") {
			t.Errorf("spec.files are not those of the first version:\n%s", files)
		}
	})
	t.Run("a variable from a Secret", func(t *testing.T) { testSecretVariable(t, client, first) })
}

// testFailedVersion uploads what Terraform does not understand, and then what was
// there before.
func testFailedVersion(t *testing.T, active string) {
	broken := sized(t, map[string]string{"notes/new.md": "new", "broken.tf": "this is not Terraform"}, nil)
	apply(t, broken)
	waitCondition(t, time.Minute, "Stalled", "True", "BuildFailed", sizedTemplate...)
	message := waitCondition(t, 10*time.Second, "Ready", "False", "BuildFailed", sizedTemplate...)
	t.Logf("Ready: %s", message)
	if now := sizedField(t, "activeVersionID"); now != active || !strings.Contains(message, "stays active") {
		t.Errorf("version %s was active, and %s is: %s", active, now, message)
	}
	if status, why := sizedField(t, "latestVersionStatus"), sizedField(t, "latestVersionError"); status != "failed" || why == "" {
		t.Errorf("the newest version is %s: %q", status, why)
	}
	before := written(t)
	apply(t, broken)
	if after := written(t); after != before {
		t.Errorf("the version that failed was uploaded again: Coder had %s, and has %s", before, after)
	}
	apply(t, sized(t, map[string]string{"notes/new.md": "new"}, nil))
	waitCondition(t, time.Minute, "Ready", "True", "Active", sizedTemplate...)
}

// testSecretVariable builds with a value that stands in a Secret, and shows it
// nowhere.
func testSecretVariable(t *testing.T, client *coderd.Client, active string) {
	const password = "correct-horse-battery"
	kubectl(t, "-n", sampleNamespace, "create", "secret", "generic", "variables", "--from-literal=password="+password)
	variables := []any{
		map[string]any{"name": "greeting", "value": "good morning"},
		map[string]any{"name": "password", "valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "variables", "key": "password"}}},
	}
	apply(t, sized(t, map[string]string{"notes/new.md": "new"}, map[string]any{"variables": variables}))
	id := becomesActive(t, active)
	built, err := client.VersionVariables(t.Context(), uuid.MustParse(id))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, v := range built {
		values[v.Name] = v.Value
	}
	if values["greeting"] != "good morning" || values["password"] != password {
		t.Errorf("the version was built with %d variables, greeting %q", len(values), values["greeting"])
	}
	told := kubectl(t, append([]string{"get", "-o", "yaml", "--show-managed-fields"}, sizedTemplate...)...) +
		kubectl(t, "-n", sampleNamespace, "get", "coderobjectmetadata", "-o", "yaml")
	if strings.Contains(told, password) {
		t.Error("the value of the Secret is told")
	}
}
