package release

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// previous returns the commit and the tag of the previous release.
func previous(t *testing.T) (commit, tag string) {
	t.Helper()
	content, err := os.ReadFile("previous")
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(string(content))
	if len(words) != 2 || len(words[0]) != 40 || !strings.HasPrefix(words[1], "v") {
		t.Fatalf("the file previous holds %q, not one commit and one tag", content)
	}
	return words[0], words[1]
}

// fromHistory reads a file of a commit. It returns fs.ErrNotExist if the commit does not have it.
func fromHistory(t *testing.T, commit, name string) ([]byte, error) {
	t.Helper()
	content, err := exec.CommandContext(t.Context(), "git", "-C", root, "show", commit+":"+name).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && strings.Contains(string(exit.Stderr), "does not exist") {
		return nil, fs.ErrNotExist
	}
	return content, err
}

// definitionsDir has the definitions. Before the chart was their source, they were in config/crd/bases.
const definitionsDir = "charts/coder-k8s/files/crds/"

func TestDefinitionsTakeWhatThePreviousReleaseTook(t *testing.T) {
	t.Parallel()
	commit, tag := previous(t)
	if err := exec.CommandContext(t.Context(), "git", "-C", root, "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		fmt.Fprintf(os.Stderr, "NOT TESTED: the definitions of %s: the commit %s is not in this clone; git fetch --unshallow\n", tag, commit)
		t.Skipf("commit %s is not in this clone", commit)
	}
	names, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-tree", "--name-only", commit, definitionsDir, "config/crd/bases/").Output()
	if err != nil {
		t.Fatal(err)
	}
	files := strings.Fields(string(names))
	if len(files) == 0 {
		t.Fatalf("%s has no definitions in %s", tag, definitionsDir)
	}
	for _, name := range files {
		if slices.Contains(removed(), path.Base(name)) {
			continue
		}
		was, err := fromHistory(t, commit, name)
		if err != nil {
			t.Fatal(err)
		}
		is, err := os.ReadFile(path.Join(root, definitionsDir, path.Base(name)))
		if err != nil {
			t.Errorf("%s had the definition %s: %v", tag, name, err)
			continue
		}
		for _, problem := range compare("", definition(t, was), definition(t, is)) {
			// Rules that compare an object in use with what it was refuse no object, but a change of what identifies it.
			identity := strings.Contains(problem, "there is a new rule: !has(oldSelf.status) || ")
			if !identity && !slices.ContainsFunc(accepted(), func(harmless string) bool { return strings.HasSuffix(problem, harmless) }) {
				t.Errorf("%s: %s", path.Base(name), problem)
			}
		}
	}
}

// removed returns the definitions that this version does not have. The previous release created no objects of them, and their
// objects contain nothing that this version needs.
func removed() []string { return []string{"internal.coder.com_coderobjectmetadata.yaml"} }

// accepted returns the differences that cannot cause rejections or data loss.
func accepted() []string {
	return []string{
		// kube-apiserver writes a default into an object when it is created, so those that exist keep the old one.
		"spec.image: default was ghcr.io/coder/coder:v2.30.0 and is ghcr.io/coder/coder:v2.34.8",
		// They are about fields that no object of the previous release has.
		"!(has(self.ipFamilyPolicy) && self.ipFamilyPolicy == 'SingleStack' && has(self.ipFamilies) && size(self.ipFamilies) > 1)",
		"!(has(self.ipFamilies) && size(self.ipFamilies) > 0 && has(oldSelf.ipFamilies) && size(oldSelf.ipFamilies) > 0) || self.ipFamilies[0] == oldSelf.ipFamilies[0]",
	}
}

// definition returns the parts of a custom resource definition that affect objects.
func definition(t *testing.T, manifest []byte) map[string]any {
	t.Helper()
	var object struct{ Spec map[string]any }
	if err := yaml.Unmarshal(manifest, &object); err != nil {
		t.Fatal(err)
	}
	versions, _ := object.Spec["versions"].([]any)
	byName := map[string]any{}
	for _, entry := range versions {
		version, _ := entry.(map[string]any)
		schema, _ := version["schema"].(map[string]any)
		byName[fmt.Sprint(version["name"])] = map[string]any{
			"served": version["served"], "storage": version["storage"], "subresources": version["subresources"],
			"schema": schema["openAPIV3Schema"],
		}
	}
	return map[string]any{"names": object.Spec["names"], "scope": object.Spec["scope"], "properties": byName}
}

// keepsAll is true in the schema of an object whose fields are kept although the schema does not name them.
const keepsAll = "x-kubernetes-preserve-unknown-fields"

// ofPeople are the keys of a schema that are documentation only.
var ofPeople = []string{"description", "example", "title", "externalDocs"}

// compare returns the differences by which an object that is valid in the first schema can be
// rejected or lose data in the second. It also reports differences that it cannot judge, for
// example a changed pattern.
func compare(at string, was, is map[string]any) []string {
	var problems []string
	report := func(format string, args ...any) {
		problems = append(problems, strings.TrimPrefix(at+": ", ": ")+fmt.Sprintf(format, args...))
	}
	keys := maps.Clone(was)
	maps.Copy(keys, is)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		switch {
		case slices.Contains(ofPeople, key):
		case key == keepsAll && is[key] == true:
		case key == "properties":
			before, now := object(was[key]), object(is[key])
			for _, name := range slices.Sorted(maps.Keys(before)) {
				field := strings.TrimPrefix(at+"."+name, ".")
				if _, there := now[name]; !there && is[keepsAll] == true {
					continue
				} else if !there {
					problems = append(problems, field+": is gone, and its values get lost")
					continue
				}
				problems = append(problems, compare(field, object(before[name]), object(now[name]))...)
			}
		case key == "schema":
			problems = append(problems, compare(at, object(was[key]), object(is[key]))...)
		case key == "items" || key == "additionalProperties":
			problems = append(problems, compare(at+"[]", object(was[key]), object(is[key]))...)
		case key == "required":
			for _, name := range added(was[key], is[key]) {
				report("%s is required now", name)
			}
		case key == "x-kubernetes-validations":
			for _, rule := range added(was[key], is[key]) {
				report("there is a new rule: %s", rule)
			}
		case key == "enum":
			if missing := added(is[key], was[key]); len(missing) > 0 || was[key] == nil {
				report("the values that are allowed were %v and are %v", was[key], is[key])
			}
		case !cmp.Equal(was[key], is[key]):
			report("%s was %v and is %v", key, was[key], is[key])
		}
	}
	return problems
}

func object(value any) map[string]any {
	m, _ := value.(map[string]any)
	return m
}

// added are the entries of the second list that the first does not have.
func added(was, is any) []string {
	before, _ := was.([]any)
	now, _ := is.([]any)
	var more []string
	for _, entry := range now {
		if !slices.ContainsFunc(before, func(b any) bool { return rule(b) == rule(entry) }) {
			more = append(more, rule(entry))
		}
	}
	return more
}

// rule returns an entry of a list without the message, which is documentation only.
func rule(entry any) string {
	if validation, ok := entry.(map[string]any); ok {
		return fmt.Sprint(validation["rule"])
	}
	return fmt.Sprint(entry)
}

func TestCompare(t *testing.T) {
	t.Parallel()
	const was = `
type: object
required: [name]
properties:
  name: {type: string, maxLength: 63, description: a name}
  mode: {type: string, enum: [a, b]}
  rules: {type: object, x-kubernetes-validations: [{rule: self.a, message: say a}]}
  ports: {type: array, items: {type: object, properties: {port: {type: integer}}}}
  env: {type: object, additionalProperties: {type: string}}
  any: {type: object, x-kubernetes-preserve-unknown-fields: true}
`
	for _, c := range []struct {
		name, old, new string
		want           []string
	}{
		{"nothing", "", "", nil},
		{"a text for people", "a name", "another text", nil},
		{"the message of a rule", "say a", "tell a", nil},
		{"a field more", "name: {", "more: {type: string}\n  name: {", nil},
		{"less that is required", "[name]", "[]", nil},
		{"a value more", "[a, b]", "[a, b, c]", nil},
		{"a rule less", ", x-kubernetes-validations: [{rule: self.a, message: say a}]", "", nil},
		{"a field is gone", "mode: {type: string, enum: [a, b]}", "", []string{"mode: is gone, and its values get lost"}},
		{"a field of an element is gone", "properties: {port: {type: integer}}", "", []string{"ports[].port: is gone, and its values get lost"}},
		{"fields of an element are kept without a schema", "properties: {port: {type: integer}}", keepsAll + ": true", nil},
		{"unknown fields are kept", "env: {type: object, ", "env: {type: object, " + keepsAll + ": true, ", nil},
		{"unknown fields are not kept", "any: {type: object, " + keepsAll + ": true}", "any: {type: object}",
			[]string{"any: " + keepsAll + " was true and is <nil>"}},
		{"more that is required", "[name]", "[name, mode]", []string{"mode is required now"}},
		{"a value less", "[a, b]", "[a]", []string{"mode: the values that are allowed were [a b] and are [a]"}},
		{"values are listed", "env: {type: object, ", "env: {type: object, enum: [x], ", []string{"env: the values that are allowed were <nil> and are [x]"}},
		{"another type", "additionalProperties: {type: string}", "additionalProperties: {type: integer}", []string{"env[]: type was string and is integer"}},
		{"a tighter bound", "maxLength: 63", "maxLength: 20", []string{"name: maxLength was 63 and is 20"}},
		{"a default", "maxLength: 63", "maxLength: 63, default: x", []string{"name: default was <nil> and is x"}},
		{"another rule", "rule: self.a", "rule: self.b", []string{"rules: there is a new rule: self.b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(was, c.old) {
				t.Fatalf("%q is not in the schema", c.old)
			}
			if diff := cmp.Diff(c.want, compare("", schema(t, was), schema(t, strings.Replace(was, c.old, c.new, 1)))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func schema(t *testing.T, text string) map[string]any {
	t.Helper()
	var s map[string]any
	if err := yaml.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return s
}
