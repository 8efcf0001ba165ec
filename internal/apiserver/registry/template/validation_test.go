package template

import (
	"math"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// TestTextsThatCoderRefuses covers the limits of Coder, which counts bytes in some texts and characters in others.
func TestTextsThatCoderRefuses(t *testing.T) {
	long := func(n int) string { return strings.Repeat("é", n) }
	for name, test := range map[string]struct {
		object          string
		set             func(*aggregationv1alpha1.CoderTemplateSpec)
		created, edited string
	}{
		"a reserved name":                 {"coder.new", func(*aggregationv1alpha1.CoderTemplateSpec) {}, "metadata.name", ""},
		"a long name":                     {"coder." + strings.Repeat("x", 33), func(*aggregationv1alpha1.CoderTemplateSpec) {}, "metadata.name", ""},
		"a display name of 64 bytes":      {"", func(s *aggregationv1alpha1.CoderTemplateSpec) { s.DisplayName = long(32) }, "", ""},
		"a display name of 66 bytes":      {"", func(s *aggregationv1alpha1.CoderTemplateSpec) { s.DisplayName = long(33) }, "spec.displayName", "spec.displayName"},
		"a display name of two lines":     {"", func(s *aggregationv1alpha1.CoderTemplateSpec) { s.DisplayName = "a\nb" }, "spec.displayName", "spec.displayName"},
		"a display name that ends so ":    {"", func(s *aggregationv1alpha1.CoderTemplateSpec) { s.DisplayName = "a " }, "spec.displayName", "spec.displayName"},
		"a description of 127 characters": {"", func(s *aggregationv1alpha1.CoderTemplateSpec) { s.Description = long(127) }, "", ""},
		"a description of 128 characters": {"", func(s *aggregationv1alpha1.CoderTemplateSpec) { s.Description = long(128) }, "spec.description", ""},
		"a description of 129 characters": {"", func(s *aggregationv1alpha1.CoderTemplateSpec) { s.Description = long(129) }, "spec.description", "spec.description"},
		"an icon of 256 characters":       {"", func(s *aggregationv1alpha1.CoderTemplateSpec) { s.Icon = long(256) }, "", ""},
		"an icon of 257 characters":       {"", func(s *aggregationv1alpha1.CoderTemplateSpec) { s.Icon = long(257) }, "spec.icon", "spec.icon"},
		"a NUL":                           {"", func(s *aggregationv1alpha1.CoderTemplateSpec) { s.Description = "\x00" }, "spec.description", "spec.description"},
		"a NUL in a value": {"", func(s *aggregationv1alpha1.CoderTemplateSpec) {
			s.Variables = []aggregationv1alpha1.TemplateVariable{{Name: "a", Value: "\x00"}}
		}, "spec.variables[0].value", "spec.variables[0].value"},
		"300 million years": {"", func(s *aggregationv1alpha1.CoderTemplateSpec) { s.DefaultTTLMillis = ptr.To[int64](math.MaxInt64) }, "spec.defaultTTLMillis", "spec.defaultTTLMillis"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			expect := func(err error, field string) {
				t.Helper()
				if field == "" {
					f.must(err)
				} else {
					mustBeInvalid(t, err, field, "")
				}
			}
			spec := aggregationv1alpha1.CoderTemplateSpec{Files: map[string]string{mainTF: "#"}}
			test.set(&spec)
			object := test.object
			if object == "" {
				object = "coder.mine"
				expect(f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) { test.set(&tmpl.Spec) }), test.edited)
			}
			expect(f.create(object, spec), test.created)
		})
	}
}

// TestATextOfCoderIsNotCheckedAgain covers a text that was set in Coder and that Kubernetes would not accept.
func TestATextOfCoderIsNotCheckedAgain(t *testing.T) {
	f := newFixture(t)
	f.coder.PatchTemplate(t, f.starter, map[string]any{"display_name": "ends with a space ", "icon": strings.Repeat("x", 300)})
	f.sync()
	f.must(f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) { tmpl.Spec.FailedVersionsHistoryLimit = ptr.To[int32](1) }))
}

// TestTheNameOfAnArchivedVersion checks that a dry run refuses it, as Coder does.
func TestTheNameOfAnArchivedVersion(t *testing.T) {
	f := newFixture(t)
	named := func(text string) func(*aggregationv1alpha1.CoderTemplate) {
		return func(tmpl *aggregationv1alpha1.CoderTemplate) {
			files(text)(tmpl)
			tmpl.Spec.VersionName, tmpl.Spec.FailedVersionsHistoryLimit = "v1", ptr.To[int32](0)
		}
	}
	f.coder.SetBuildResult("", coderdtest.BuildResult{Error: "bad syntax"})
	f.must(f.update("coder.starter", named("# broken")))
	f.sync()
	f.coder.SetBuildResult("", coderdtest.BuildResult{})
	f.must(f.update("coder.starter", func(tmpl *aggregationv1alpha1.CoderTemplate) {
		files("# two")(tmpl)
		tmpl.Spec.VersionName = ""
	}))
	f.sync()
	f.clock.Step(2 * restAge)
	f.sync()
	was := f.get("coder.starter")
	wanted := was.DeepCopy()
	named("# three")(wanted)
	mustBeInvalid(t, f.kind.CheckUpdate(f.ctx, wanted, was), "spec.versionName", "archived")
}

func TestSensitiveValuesDrawAWarning(t *testing.T) {
	spec := aggregationv1alpha1.CoderTemplateSpec{
		Files: map[string]string{
			"variables.tf": "variable \"password\" {\n  type      = string\n  validation { condition = true }\n  sensitive = true\n}\n" +
				"variable \"region\" {\n  # sensitive = true\n}\nvariable \"key\" { sensitive=true }\nvariable \"off\" {\n  sensitive = false\n}\n",
			"open.tf":        strings.Repeat("variable \"open\" {\n", 1000) + "variable \"last\" { sensitive = true }\n",
			"module/main.tf": "variable \"inner\" {\n  sensitive = true\n}\n",
			"README.md":      "variable \"text\" {\n  sensitive = true\n}\n",
		},
		Variables: variableFrom("db"),
	}
	if got := sensitiveValues(spec); len(got) != 0 {
		t.Errorf("of a Secret: %v", got)
	}
	spec.Variables = nil
	for _, name := range []string{"region", "password", "key", "off", "inner", "text", "open"} {
		spec.Variables = append(spec.Variables, aggregationv1alpha1.TemplateVariable{Name: name, Value: "hunter2"})
	}
	got := strings.Join(sensitiveValues(spec), "\n")
	if strings.Count(got, "declares variable") != 2 || !strings.Contains(got, `spec.variables[1].value: the template declares variable "password"`) ||
		!strings.Contains(got, `"key"`) || strings.Contains(got, "hunter2") {
		t.Errorf("%s", got)
	}
	// A change of something else draws no warning.
	tmpl := newTemplateObject("coder.starter", spec)
	changed := tmpl.DeepCopy()
	changed.Spec.Icon = "/x.svg"
	if got := (strategy{}).WarningsOnUpdate(t.Context(), changed, tmpl); len(got) != 0 {
		t.Errorf("of an icon: %v", got)
	}
	changed.Spec.Variables[0].Value = "south"
	if got := (strategy{}).WarningsOnUpdate(t.Context(), changed, tmpl); len(got) != 2 {
		t.Errorf("of a variable: %v", got)
	}
}
