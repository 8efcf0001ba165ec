//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"sigs.k8s.io/yaml"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// sized returns the sample of a template with a parameter and variables, with a
// change.
func sized(t *testing.T, change func(spec, files map[string]any)) string {
	t.Helper()
	_, manifest, _ := strings.Cut(sample(t, "codertemplate-parameters"), "\n---\n")
	var object map[string]any
	if err := yaml.Unmarshal([]byte(manifest), &object); err != nil {
		t.Fatal(err)
	}
	spec := object["spec"].(map[string]any)
	change(spec, spec["files"].(map[string]any))
	changed, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(changed)
}

// withNotes replaces the README.md of the sample by another file.
func withNotes(_, files map[string]any) {
	delete(files, "README.md")
	files["notes/new.md"] = "new"
}

// sizedTemplate has the kubectl arguments for the template.
var sizedTemplate = []string{"-n", sampleNamespace, "ctpl", "coder.sized"}

// sizedField reads a field of the template's status.
func sizedField(t *testing.T, name string) string {
	t.Helper()
	return field(get(t, sizedTemplate...), "status", name)
}

// becomesActive waits until a version other than the given one is active, and
// returns it.
func becomesActive(t *testing.T, than string) string {
	t.Helper()
	var active string
	polltest.Eventually(t, "a new version is active", func() error {
		object := get(t, sizedTemplate...)
		ready, reason, message := condition(object, "Ready")
		if active = field(object, "status", "activeVersionID"); ready != "True" || active == than || active == "" {
			return fmt.Errorf("version %s is active, Ready=%s %s: %s", active, ready, reason, message)
		}
		return nil
	})
	return active
}

// testTemplates tests a template with several versions.
func testTemplates(t *testing.T) {
	explain(t, sampleNamespace)
	client := login(t, sampleNamespace, "coder")
	start := time.Now()
	kubectl(t, "apply", "-f", "../../config/samples/codertemplate-parameters.yaml")
	t.Logf("kubectl apply came back after %.1f s", time.Since(start).Seconds())
	first := becomesActive(t, "")
	second := ""

	t.Run("the same is not uploaded again", func(t *testing.T) {
		before := written(t)
		kubectl(t, "apply", "-f", "../../config/samples/codertemplate-parameters.yaml")
		if after := written(t); after != before {
			t.Errorf("Coder had %s, and has %s", before, after)
		}
	})
	t.Run("changed, and a file removed", func(t *testing.T) {
		w := watch(t, "ctpl", "coder.sized", "-o", `jsonpath={.status.activeVersionID} {.status.latestVersionStatus}{"\n"}`)
		versions := watch(t, "ctv", "-l", "aggregation.coder.com/template=sized", "-o", `jsonpath={.status.id} {.status.jobStatus} {.status.active}{"\n"}`)
		polltest.Eventually(t, "the watch has begun", w.shows(first))
		polltest.Eventually(t, "the watch of the versions has begun", versions.shows(first+" succeeded true"))
		apply(t, sized(t, withNotes))
		second = becomesActive(t, first)
		polltest.Eventually(t, "the watch shows the second version", w.shows(second))
		for _, line := range []string{second + " succeeded true", first + " succeeded false"} {
			polltest.Eventually(t, "the watch of the versions shows "+line, versions.shows(line))
		}
		testVersion(t, second)
		if text := w.text(); !strings.Contains(text, first+" pending") && !strings.Contains(text, first+" running") {
			t.Errorf("nobody was told that the first version is active while the second one is built:\n%s", text)
		}
		files := kubectl(t, append([]string{"get", "-o", "jsonpath={.spec.files}"}, sizedTemplate...)...)
		archive := kubectl(t, "get", "--raw", aggregatedAPI+"/codertemplates/coder.sized/files")
		for where, text := range map[string]string{"spec.files": files, "the archive": archive} {
			if strings.Contains(text, "README.md") || !strings.Contains(text, "notes/new.md") {
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
		if files := kubectl(t, append([]string{"get", "-o", "jsonpath={.spec.files}"}, sizedTemplate...)...); !strings.Contains(files, "README.md") {
			t.Errorf("spec.files are not those of the first version:\n%s", files)
		}
	})
	t.Run("candidate", func(t *testing.T) { testCandidate(t, first) })
	t.Run("variables", func(t *testing.T) { testVariables(t, client, first) })
}

// testVersion reads a version that is active.
func testVersion(t *testing.T, id string) {
	t.Logf("kubectl get ctv\n%s", kubectl(t, "-n", sampleNamespace, "get", "ctv"))
	name := strings.TrimSpace(kubectl(t, "-n", sampleNamespace, "get", "ctv", "--field-selector", "status.template=coder.sized,status.active=true", "-o", "name"))
	manifest := kubectl(t, "-n", sampleNamespace, "get", name, "-o", "yaml")
	for _, want := range []string{"id: " + id, "jobStatus: succeeded", "active: true", "sourceSHA256: ", "kind: CoderTemplate\n"} {
		if !strings.Contains(manifest, want) {
			t.Errorf("%s has no %q:\n%s", name, want, manifest)
		}
	}
	_, name, _ = strings.Cut(name, "/")
	if archive := kubectl(t, "get", "--raw", aggregatedAPI+"/codertemplateversions/"+name+"/files"); !strings.Contains(archive, "notes/new.md") {
		t.Errorf("the archive of %s lacks its file", name)
	}
}

// testCandidate builds a candidate, promotes it and rolls back, and ends with the given active version.
func testCandidate(t *testing.T, active string) {
	candidate := sized(t, func(spec, files map[string]any) {
		spec["activation"], files["notes/candidate.md"] = "Manual", "new"
	})
	apply(t, candidate)
	waitCondition(t, "Ready", "True", "AwaitingPromotion", sizedTemplate...)
	before := written(t)
	apply(t, candidate)
	if now := sizedField(t, "activeVersionID"); now != active || written(t) != before {
		t.Errorf("version %s is active, not %s, and Coder had %s, and has %s", now, active, before, written(t))
	}
	id := field(get(t, sizedTemplate...), "status", "candidate", "id")
	coderGives(t, 0, "coder.sized promoted", "", "template", "promote", "sized", "-n", sampleNamespace)
	if now := becomesActive(t, active); now != id {
		t.Errorf("version %s is active, not the candidate %s", now, id)
	}
	coderGives(t, 0, "coder.sized rolled back", "", "template", "rollback", "sized", "-n", sampleNamespace)
	if now := becomesActive(t, id); now != active {
		t.Errorf("version %s is active, not the one before, %s", now, active)
	}
	coderGives(t, 0, "candidate, succeeded", "", "template", "history", "sized", "-n", sampleNamespace)
	kubectl(t, append([]string{"patch", "--type=merge", "-p", `{"spec":{"activation":null}}`}, sizedTemplate...)...)
}

// testFailedVersion uploads invalid Terraform code, and then the previous files.
func testFailedVersion(t *testing.T, active string) {
	broken := sized(t, func(spec, files map[string]any) {
		withNotes(spec, files)
		files["broken.tf"] = "this is not Terraform"
	})
	apply(t, broken)
	waitCondition(t, "Stalled", "True", "BuildFailed", sizedTemplate...)
	message := waitCondition(t, "Ready", "False", "BuildFailed", sizedTemplate...)
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
	apply(t, sized(t, withNotes))
	waitCondition(t, "Ready", "True", "Active", sizedTemplate...)
}

// testVariables changes the value of a variable. The value of the other variable is
// in a Secret: the version was built with it, and it is shown nowhere.
func testVariables(t *testing.T, client *coderd.Client, active string) {
	value := secretValue(t, sampleNamespace, "sized-variables", "registry-token")
	apply(t, sized(t, func(spec, files map[string]any) {
		withNotes(spec, files)
		spec["variables"].([]any)[0].(map[string]any)["value"] = "good morning"
	}))
	id := becomesActive(t, active)
	built := query(t, "coder", fmt.Sprintf(`SELECT string_agg(name || '=' || value, ', ' ORDER BY name) FROM template_version_variables
		WHERE template_version_id = '%s'`, id))
	if want := "greeting=good morning, registry_token=" + value; built != want {
		t.Errorf("the version was built with %d characters of variables, not those that were given", len(built))
	}
	shown, err := client.VersionVariables(t.Context(), uuid.MustParse(id))
	if err != nil || len(shown) != 2 {
		t.Errorf("the version has the variables %v: %v", shown, err)
	}
	told := kubectl(t, append([]string{"get", "-o", "yaml", "--show-managed-fields"}, sizedTemplate...)...) +
		kubectl(t, "-n", sampleNamespace, "get", "codertemplaterecords,codertemplatesources", "-o", "yaml") +
		kubectl(t, "-n", "coder-system", "logs", "deploy/coder-k8s")
	if strings.Contains(told, value) {
		t.Error("the value of the Secret is told")
	}
}
