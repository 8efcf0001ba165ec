package template

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

type spec = aggregationv1alpha1.CoderTemplateSpec

func source1() map[string]string { return map[string]string{mainTF: "#"} }

func TestTemplatesThatAreRefused(t *testing.T) {
	f := newFixture(t)
	from := func(variable aggregationv1alpha1.TemplateVariable) spec {
		return spec{Files: source1(), Variables: []aggregationv1alpha1.TemplateVariable{variable}}
	}
	secret := func(name, key string) *aggregationv1alpha1.TemplateVariableSource {
		return &aggregationv1alpha1.TemplateVariableSource{SecretKeyRef: &aggregationv1alpha1.SecretKeySelector{Name: name, Key: key}}
	}
	const some = "00000000-0000-0000-0000-000000000001"
	for what, c := range map[string]struct {
		name string
		spec spec
		// field and says are the field and the text of the expected error.
		field, says string
	}{
		"one part":           {"docker", spec{Files: source1()}, "metadata.name", `<organization>.<template>, for example "coder.docker"`},
		"long name":          {"coder." + strings.Repeat("a", 33), spec{Files: source1()}, "metadata.name", "32"},
		"alias":              {"default.docker", spec{Files: source1()}, "metadata.name", "coder"},
		"no organization":    {"nobody.docker", spec{Files: source1()}, "metadata.name", "nobody"},
		"no control plane":   {"test.coder.docker", spec{Files: source1()}, "metadata.namespace", "test."},
		"no source":          {"coder.docker", spec{}, "spec.files", "spec.versionID"},
		"two sources":        {"coder.docker", spec{VersionID: some, Files: source1()}, "spec.versionID", "must be empty"},
		"no such version":    {"coder.docker", spec{VersionID: some}, "spec.versionID", "no such version"},
		"variables":          {"coder.docker", spec{VersionID: some, Variables: []aggregationv1alpha1.TemplateVariable{{Name: "a"}}}, "spec.variables", "spec.files"},
		"path":               {"coder.docker", spec{Files: map[string]string{"../x": "b"}}, "spec.files[../x]", ".."},
		"path with a dot":    {"coder.docker", spec{Files: map[string]string{"./main.tf": "#"}}, "spec.files[./main.tf]", `must be written as "main.tf"`},
		"large file":         {"coder.docker", spec{Files: map[string]string{"big.txt": strings.Repeat("x", 2<<20+1)}}, "spec.files[big.txt]", "2097153 bytes"},
		"organization":       {"coder.docker", spec{Organization: "x", Files: source1()}, "spec.organization", `"coder"`},
		"description":        {"coder.docker", spec{Description: strings.Repeat("x", 128), Files: source1()}, "spec.description", "127"},
		"display name":       {"coder.docker", spec{DisplayName: " x", Files: source1()}, "spec.displayName", "whitespace"},
		"negative time":      {"coder.docker", spec{DefaultTTLMillis: ptr.To[int64](-1), Files: source1()}, "spec.defaultTTLMillis", "0 or more"},
		"negative limit":     {"coder.docker", spec{FailedVersionsHistoryLimit: ptr.To[int32](-1), Files: source1()}, "spec.failedVersionsHistoryLimit", "0 or more"},
		"cors":               {"coder.docker", spec{CORSBehavior: "all", Files: source1()}, "spec.corsBehavior", "passthru"},
		"version name":       {"coder.docker", spec{VersionName: "a b", Files: source1()}, "spec.versionName", "64"},
		"nameless variable":  {"coder.docker", from(aggregationv1alpha1.TemplateVariable{Value: "x"}), "spec.variables[0].name", "name"},
		"two values":         {"coder.docker", from(aggregationv1alpha1.TemplateVariable{Name: "a", Value: "x", ValueFrom: secret("db", "k")}), "spec.variables[0].value", "empty"},
		"value from nowhere": {"coder.docker", from(aggregationv1alpha1.TemplateVariable{Name: "a", ValueFrom: &aggregationv1alpha1.TemplateVariableSource{}}), "spec.variables[0].valueFrom.secretKeyRef", "stored"},
		"no key":             {"coder.docker", from(aggregationv1alpha1.TemplateVariable{Name: "a", ValueFrom: secret("db", "")}), "spec.variables[0].valueFrom.secretKeyRef.key", "key"},
		"bad Secret name":    {"coder.docker", from(aggregationv1alpha1.TemplateVariable{Name: "a", ValueFrom: secret("D B", "k")}), "spec.variables[0].valueFrom.secretKeyRef.name", "lower case"},
		"no such Secret":     {"coder.docker", from(aggregationv1alpha1.TemplateVariable{Name: "a", ValueFrom: secret("none", "k")}), "spec.variables[0].valueFrom.secretKeyRef", "none"},
	} {
		t.Run(what, func(t *testing.T) { mustBeInvalid(t, f.create(c.name, c.spec), c.field, c.says) })
	}
	mustBeInvalid(t, f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Spec.Organization = "other" }), "spec.organization", "cannot change")
	if err := f.create("coder.starter", spec{Files: source1()}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("a second one: %v", err)
	}
	delete(f.log, "coder.starter")
	if err := f.create("coder.starter", spec{Files: source1()}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("one that the log does not have yet: %v", err)
	}
	if n := f.coder.VersionCount(); n != 1 || len(f.records.All()) != 0 {
		t.Errorf("%d versions and %d records after requests that were refused", n, len(f.records.All()))
	}
}

// TestRefusedByCoder covers requests that only Coder can reject: nothing is left behind.
func TestRefusedByCoder(t *testing.T) {
	for what, fault := range map[string]coderdtest.Fault{
		"the version":  {Method: "POST", PathPrefix: "/api/v2/organizations/", Status: 400, Message: "No."},
		"the template": {Method: "POST", PathPrefix: "/api/v2/organizations/", Status: 403, Message: "No."},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFixture(t)
			defer f.coder.Fail(fault)()
			if err := f.create("coder.docker", spec{Files: source1()}); err == nil || apierrors.IsServiceUnavailable(err) {
				t.Errorf("creating: %v", err)
			}
			if err := f.update("coder.starter", files("# two")); err == nil || apierrors.IsServiceUnavailable(err) {
				t.Errorf("changing: %v", err)
			}
			f.sync()
			f.mustBe("coder.starter", "True Active", "# one")
			if n := len(f.records.All()); n != 0 {
				t.Errorf("%d records are left: %s", n, f.picture())
			}
		})
	}
}

// TestDryRun checks that a dry run makes the same checks as a write, and writes nothing.
func TestDryRun(t *testing.T) {
	f := newFixture(t)
	f.secrets["db/password"] = "x"
	f.must(f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) {
		files("# two")(tmpl)
		tmpl.Spec.VersionName = "v2"
	}))
	f.sync()
	f.coder.ResetRequests()
	writes := len(f.records.Writes())
	was := f.get("coder.starter")
	changed := func(change func(tmpl *aggregationv1alpha1.CoderTemplate)) *aggregationv1alpha1.CoderTemplate {
		out := was.DeepCopy()
		change(out)
		return out
	}
	f.must(f.kind.CheckCreate(f.ctx, newTemplateObject("coder.docker", spec{Files: source1(), Variables: variableFrom("db")})))
	f.must(f.kind.CheckUpdate(f.ctx, changed(func(tmpl *aggregationv1alpha1.CoderTemplate) {
		files("# three")(tmpl)
		tmpl.Spec.VersionName = "v3"
	}), was))
	mustBeInvalid(t, f.kind.CheckUpdate(f.ctx, changed(files("# three")), was), "spec.versionName", "existing version")
	mustBeInvalid(t, f.kind.CheckUpdate(f.ctx, changed(func(tmpl *aggregationv1alpha1.CoderTemplate) {
		tmpl.Spec.VersionName, tmpl.Spec.Variables = "", variableFrom("none")
	}), was), "spec.variables[1].valueFrom.secretKeyRef", "none")
	mustBeInvalid(t, f.kind.CheckUpdate(f.ctx, changed(func(tmpl *aggregationv1alpha1.CoderTemplate) {
		tmpl.Spec.VersionID = "00000000-0000-0000-0000-000000000001"
	}), was), "spec.versionID", "no such version")
	mustBeInvalid(t, f.kind.CheckCreate(f.ctx, newTemplateObject("nobody.docker", spec{Files: source1()})), "metadata.name", "nobody")
	if err := f.kind.CheckCreate(f.ctx, newTemplateObject("coder.starter", spec{Files: source1()})); !apierrors.IsAlreadyExists(err) {
		t.Errorf("a second one: %v", err)
	}
	if n := f.coder.Writes(); n != 0 || len(f.records.Writes()) != writes {
		t.Errorf("%d writes to Coder: %v; to the cluster: %v", n, f.coder.Requests(), f.records.Writes()[writes:])
	}
}

// TestDryRunOfAnotherTry checks that a dry run refuses the name of a version as the write does, if a failed
// version is to be built again.
func TestDryRunOfAnotherTry(t *testing.T) {
	f := newFixture(t)
	name := func(name string) func(*aggregationv1alpha1.CoderTemplate) {
		return func(tmpl *aggregationv1alpha1.CoderTemplate) {
			files("# two")(tmpl)
			tmpl.Spec.VersionName = name
		}
	}
	f.must(f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) {
		files("# first")(tmpl)
		tmpl.Spec.VersionName = "v1"
	}))
	f.sync()
	f.coder.SetBuildResult("", coderdtest.BuildResult{Error: "bad syntax"})
	f.must(f.update("coder.starter", name("v2")))
	f.sync()
	f.mustBe("coder.starter", "False BuildFailed", "# two")
	was := f.get("coder.starter")
	f.coder.ResetRequests()
	for wanted, taken := range map[string]bool{"v1": true, "v3": false} {
		tmpl := was.DeepCopy()
		name(wanted)(tmpl)
		if err := f.kind.CheckUpdate(f.ctx, tmpl, was); taken {
			mustBeInvalid(t, err, "spec.versionName", "existing version")
		} else {
			f.must(err)
		}
	}
	if n := f.coder.Writes(); n != 0 {
		t.Errorf("%d writes to Coder: %v", n, f.coder.Requests())
	}
	mustBeInvalid(t, f.update("coder.starter", name("v1")), "spec.versionName", "existing version")
}

func TestVersionIDInCapitals(t *testing.T) {
	f := newFixture(t)
	f.must(f.update("coder.starter", files("# two")))
	f.sync()
	was := f.get("coder.starter")
	f.coder.ResetRequests()
	f.must(f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) {
		tmpl.Spec.VersionID = strings.ToUpper(tmpl.Spec.VersionID)
	}))
	if diff := cmp.Diff(was, f.get("coder.starter")); diff != "" || f.coder.Writes() != 0 {
		t.Errorf("the same version: %v (-before +after):\n%s", f.coder.Requests(), diff)
	}
}

func TestDeletionWithFinalizers(t *testing.T) {
	f := newFixture(t)
	f.must(f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Finalizers = []string{"example.com/wait"} }))
	now := metav1.NewTime(f.clock.Now().Truncate(1e9))
	f.must(f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.DeletionTimestamp = &now }))
	f.sync()
	if got := f.get("coder.starter"); got.DeletionTimestamp == nil || len(got.Finalizers) != 1 {
		t.Fatalf("%+v", got.ObjectMeta)
	}
	// The Store deletes after the last finalizer is removed. Here the process dies in between.
	f.must(f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Finalizers = nil }))
	f.pass()
	f.pass()
	if _, exists := f.log["coder.starter"]; exists || len(f.records.All()) != 0 {
		t.Errorf("it is not gone: %s", f.picture())
	}
}

// TestDeletionOfAHiddenTemplate checks that a template that Coder does not show counts as deleted only if the operator's account
// sees all templates.
func TestDeletionOfAHiddenTemplate(t *testing.T) {
	f := newFixture(t)
	f.coder.AddOrganization("other")
	id := f.coder.AddTemplate("other", "hidden", source1())
	f.sync()
	hidden := f.get("other.hidden")
	f.coder.EditUser("operator", "", false)
	if err := f.write(hidden, nil); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "does not have the role owner") {
		t.Errorf("a hidden template: %v", err)
	}
	f.coder.EditUser("operator", "", false, "owner")
	f.coder.DeleteTemplate(id)
	if err := f.write(hidden, nil); err != nil {
		t.Errorf("a deleted template: %v", err)
	}
}

func TestTable(t *testing.T) {
	f := newFixture(t)
	f.must(f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Spec.DisplayName = "Starter" }))
	f.coder.SetBuildResult("", coderdtest.BuildResult{Error: "bad syntax"})
	f.must(f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) {
		files("broken {")(tmpl)
		tmpl.Spec.VersionName = "v2"
	}))
	f.sync()
	tmpl := f.get("coder.starter")
	got, err := f.kind.ConvertToTable(f.ctx, &aggregationv1alpha1.CoderTemplateList{Items: []aggregationv1alpha1.CoderTemplate{*tmpl}}, nil)
	f.must(err)
	var names []string
	for _, c := range got.ColumnDefinitions {
		name := c.Name
		if c.Priority > 0 {
			name += " (wide)"
		}
		names = append(names, name)
	}
	want := []string{"Name", "Display name", "Status", "Active version", "Deprecated", "Age", "Template (wide)", "Organization (wide)", "Control plane (wide)",
		"Latest version (wide)", "Latest status (wide)", "Updated (wide)", "Reason (wide)"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	cells := got.Rows[0].Cells
	for i, want := range map[int]any{
		0: "coder.starter", 1: "Starter", 2: "BuildFailed", 3: tmpl.Status.ActiveVersionName, 4: false, 6: "starter", 7: "coder", 8: "prod", 9: "v2", 10: "failed",
	} {
		if cells[i] != want {
			t.Errorf("%s is %v, want %v", want, cells[i], want)
		}
	}
	if reason, _ := cells[12].(string); !strings.Contains(reason, "bad syntax") {
		t.Errorf("the reason is %q", reason)
	}
}

func TestSelectors(t *testing.T) {
	f := newFixture(t)
	tmpl := f.get("coder.starter")
	scheme := runtime.NewScheme()
	f.must(AddToScheme(scheme))
	for selector, want := range map[string]bool{
		"metadata.name=coder.starter,metadata.namespace=team":        true,
		"spec.organization=other":                                    false,
		"status.activeVersionID=" + tmpl.Status.ActiveVersionID:      true,
		"status.deprecated=true":                                     false,
		"status.latestVersionStatus!=failed,spec.organization=coder": true,
		"status.organizationName=Coder,status.templateName=Starter":  true,
		"status.templateName=other":                                  false,
	} {
		parsed, err := fields.ParseAndTransformSelector(selector, func(label, value string) (string, string, error) {
			return scheme.ConvertFieldLabel(aggregationv1alpha1.GroupVersion.WithKind("CoderTemplate"), label, value)
		})
		f.must(err)
		_, set, err := info.Attributes(tmpl)
		f.must(err)
		if parsed.Matches(set) != want {
			t.Errorf("%s matches: %t", selector, !want)
		}
	}
	if _, _, err := info.FieldLabel("spec.icon", "x"); err == nil || !strings.Contains(err.Error(), "spec.organization") {
		t.Errorf("a selector for anything: %v", err)
	}
	if _, _, err := info.Attributes(&aggregationv1alpha1.CoderWorkspace{}); err == nil {
		t.Error("a workspace is a template")
	}
}
