package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const parityPage = "docs/reference/helm-parity.md"

// parityTables are those of the page, by heading: the lists whose values must be there, and
// the definition whose fields it names.
var parityTables = map[string]struct {
	lists      []string
	definition string
}{
	"The chart coder: CoderControlPlane":                       {[]string{"coder.txt", "coder-newer.txt"}, "coder.com_codercontrolplanes.yaml"},
	"The chart coder with workspaceProxy: CoderWorkspaceProxy": {[]string{"coder.txt", "coder-newer.txt"}, "coder.com_coderworkspaceproxies.yaml"},
	"The chart provisioner: CoderProvisioner":                  {[]string{"provisioner.txt"}, "coder.com_coderprovisioners.yaml"},
}

var (
	firstCell = regexp.MustCompile("^\\| `([^`]+)` \\|")
	fieldPath = regexp.MustCompile("`(spec(?:\\.[A-Za-z]+(?:\\[\\])?)+)`")
)

// TestEachValueHasARow and each row a value, in each of the three tables.
func TestEachValueHasARow(t *testing.T) {
	sections := sectionsOf(t)
	for heading, table := range parityTables {
		t.Run(heading, func(t *testing.T) {
			var values []string
			for _, name := range table.lists {
				values = append(values, list(t, name)...)
			}
			rows := map[string]int{}
			for _, line := range strings.Split(sections[heading], "\n") {
				match := firstCell.FindStringSubmatch(line)
				if match == nil {
					continue
				}
				rows[match[1]]++
				if cells := strings.Split(line, " | "); len(cells) < 3 || (!fieldPath.MatchString(cells[1]) && len(cells[2]) < 10) {
					t.Errorf("the row of %s names neither a field nor a reason: %s", match[1], line)
				}
			}
			for _, value := range values {
				if rows[value] != 1 {
					t.Errorf("the value %s has %d rows, not one", value, rows[value])
				}
			}
			for row := range rows {
				if !slices.Contains(values, row) {
					t.Errorf("the row %s is of no value of the chart", row)
				}
			}
		})
	}
}

// TestEachFieldExists checks that renamed or removed fields are not on the page.
func TestEachFieldExists(t *testing.T) {
	for heading, text := range sectionsOf(t) {
		// Outside the tables a field may be that of any kind.
		files := []string{parityTables[heading].definition}
		if files[0] == "" {
			files = nil
			for _, table := range parityTables {
				files = append(files, table.definition)
			}
		}
		var schemas []*apiextensionsv1.JSONSchemaProps
		for _, file := range files {
			schemas = append(schemas, schemaOf(t, file))
		}
		for _, match := range fieldPath.FindAllStringSubmatch(text, -1) {
			if !slices.ContainsFunc(schemas, func(s *apiextensionsv1.JSONSchemaProps) bool { return exists(s, strings.Split(match[1], ".")) }) {
				t.Errorf("%q: the field %s is not in %v", heading, match[1], files)
			}
		}
	}
}

var templateValue = regexp.MustCompile(`\.Values\.([A-Za-z]+(?:\.[A-Za-z]+)*)`)

// TestListsAreWhole checks that the lists contain all values of the charts. The
// charts are in the module of Coder's client, in the version that we are built with.
func TestListsAreWhole(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}} {{.Version}}", "github.com/coder/coder/v2").CombinedOutput()
	dir, version, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if err != nil || dir == "" {
		t.Skipf("the source of Coder is not in the module cache: %v\n%s", err, out)
	}
	for chart, name := range map[string]string{"coder": "coder.txt", "provisioner": "provisioner.txt"} {
		if first, _, _ := strings.Cut(read(t, "test/docs/testdata/"+name), "\n"); !strings.Contains(first, "chart "+chart) || !strings.Contains(first, version) {
			t.Errorf("%s is a list of %q, and Coder is of %s: compare the charts, and change the line", name, first, version)
		}
		known := list(t, name)
		for _, value := range chartValues(t, filepath.Join(dir, "helm"), chart) {
			if !slices.ContainsFunc(known, func(k string) bool {
				return k == value || strings.HasPrefix(value, k+".") || strings.HasPrefix(k, value+".")
			}) {
				t.Errorf("the chart %s has the value %s, and %s has not", chart, value, name)
			}
		}
	}
}

// chartValues are the values of a chart, and what its templates and those of the
// library chart read besides.
func chartValues(t *testing.T, helm, chart string) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(helm, chart, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(raw, &values); err != nil {
		t.Fatal(err)
	}
	found := leaves("", values)
	if len(found) < 30 {
		t.Errorf("the chart %s has only %d values", chart, len(found))
	}
	for _, from := range []string{chart, "libcoder"} {
		files, err := filepath.Glob(filepath.Join(helm, from, "templates", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range templateValue.FindAllStringSubmatch(string(raw), -1) {
				found = append(found, match[1])
			}
		}
	}
	// An example in a comment, a value that is always rejected, and values of the
	// library chart for the other chart.
	skipped := []string{"path.to.the.Value", "coder.tls.secretName"}
	if chart == "provisioner" {
		skipped = append(skipped, "coder.ingress.wildcardHost")
	}
	return slices.DeleteFunc(found, func(value string) bool { return slices.Contains(skipped, value) })
}

func leaves(path string, value any) []string {
	fields, ok := value.(map[string]any)
	if !ok || len(fields) == 0 {
		return []string{path}
	}
	var found []string
	for key, entry := range fields {
		found = append(found, leaves(strings.TrimPrefix(path+"."+key, "."), entry)...)
	}
	return found
}

// list reads one of the lists: its first line says of which chart it is.
func list(t *testing.T, name string) []string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(read(t, "test/docs/testdata/"+name)), "\n")
	if !strings.HasPrefix(lines[0], "# chart ") {
		t.Fatalf("%s does not begin with the chart and version", name)
	}
	return lines[1:]
}

// sectionsOf are the parts of the page, by heading.
func sectionsOf(t *testing.T) map[string]string {
	t.Helper()
	sections := map[string]string{}
	for _, part := range strings.Split("\n"+read(t, parityPage), "\n## ") {
		heading, text, _ := strings.Cut(part, "\n")
		sections[heading] = text
	}
	for heading := range parityTables {
		if sections[heading] == "" {
			t.Fatalf("%s has no section %q", parityPage, heading)
		}
	}
	return sections
}

func schemaOf(t *testing.T, file string) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(read(t, "charts/coder-k8s/files/crds/"+file)), definition); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", file, err))
	}
	return definition.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// exists reports whether a schema has the field.
func exists(schema *apiextensionsv1.JSONSchemaProps, path []string) bool {
	for _, step := range path {
		name, isList := strings.CutSuffix(step, "[]")
		property, ok := schema.Properties[name]
		if !ok {
			return false
		}
		schema = &property
		if isList {
			if schema.Items == nil || schema.Items.Schema == nil {
				return false
			}
			schema = schema.Items.Schema
		}
	}
	return true
}
