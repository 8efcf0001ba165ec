package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTemplateOfAnObject(t *testing.T) {
	o := object{
		"apiVersion": "v1", "kind": "Thing",
		"metadata": map[string]any{
			"name": "x", "namespace": namespace,
			"labels":      map[string]any{nameLabel: "coder-k8s", "a": "b"},
			"annotations": map[string]any{"from": "coder-k8s"},
		},
		"spec":   map[string]any{"text": "{{ $labels.pod }}", "host": "a." + namespace + ".svc"},
		"status": map[string]any{"ready": true},
	}
	got, err := o.template("", "")
	if err != nil {
		t.Fatal(err)
	}
	want := `apiVersion: v1
kind: Thing
metadata:
  name: x
  namespace: {{ $.Release.Namespace }}
  {{- include "coder-k8s.metadata" (dict "root" $ "labels" (dict "a" "b") "annotations" (dict "from" "coder-k8s")) | nindent 2 }}
spec:
  host: a.{{ $.Release.Namespace }}.svc
  text: '{{ "{{" }} $labels.pod }}'
`
	if got != want {
		t.Errorf("got:\n%s", got)
	}
}

func TestDocument(t *testing.T) {
	for want, conditions := range map[string][]string{
		"---\nbody\n":                                        nil,
		"{{- if .a }}\n---\nbody\n{{- end }}\n":              {".a"},
		"{{- if and .a (not .b) }}\n---\nbody\n{{- end }}\n": {".a", "not .b"},
	} {
		if got := document(conditions, "body\n"); got != want {
			t.Errorf("%q: %q", conditions, got)
		}
	}
}

// TestBindingsOfOptions checks that a binding written for mode all binds the right account in mode
// split.
func TestBindingsOfOptions(t *testing.T) {
	bind := func(name, role, account string) object {
		return object{
			"kind": "ClusterRoleBinding", "metadata": map[string]any{"name": name},
			"roleRef": map[string]any{"name": role}, "subjects": []any{account},
		}
	}
	s := sources{{split: rendering{bind("a", "part", "wrong"), bind("b", "part-one", "right")}}}
	got, err := s.inSplit(bind("c", "part-one-more", "all"))
	if err != nil || got["subjects"].([]any)[0] != "right" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := s.inSplit(bind("c", "other", "all")); err == nil {
		t.Error("a role to which nobody is bound is taken")
	}
}

func TestSchemasThatAreRefused(t *testing.T) {
	for name, tc := range map[string]struct{ schema, says string }{
		"a value without a description": {
			`{"additionalProperties": false, "properties": {"a": {"type": "string", "default": ""}}}`, "a has no description"},
		"a group that takes anything": {
			`{"additionalProperties": false, "properties": {"a": {"description": "x", "properties": {"b": {"description": "y"}}}}}`,
			`"a" has properties and does not say "additionalProperties": false`},
		"a definition that is not there": {
			`{"additionalProperties": false, "properties": {"a": {"$ref": "#/definitions/x"}}}`, "#/definitions/x is not among the definitions"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "schema.json")
			if err := os.WriteFile(path, []byte(tc.schema), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := readSchema(path); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestValues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "schema.json")
	schema := `{"additionalProperties": false, "properties": {
		"mode": {"description": "How.", "enum": ["a", "b"], "default": "a"},
		"group": {"description": "All of it.", "additionalProperties": false, "properties": {
			"list": {"description": "Some.", "type": "array", "items": {"type": "string"}, "default": ["x", "y"]},
			"empty": {"description": "None.", "type": "object", "default": {}}}}}}`
	if err := os.WriteFile(path, []byte(schema), 0o600); err != nil {
		t.Fatal(err)
	}
	properties, err := readSchema(path)
	if err != nil {
		t.Fatal(err)
	}
	values, err := valuesFile(properties)
	if err != nil {
		t.Fatal(err)
	}
	_, values, _ = strings.Cut(values, "\n")
	if want := "\n# How.\nmode: a\n\n# All of it.\ngroup:\n  # Some.\n  list:\n  - x\n  - \"y\"\n  # None.\n  empty: {}\n"; values != want {
		t.Errorf("values.yaml is\n%s", values)
	}
	table := valuesTable(properties)
	for _, row := range []string{"| `mode` | `a`, `b` | `\"a\"` | How. |", "| `group.list` | list of string | `[\"x\", \"y\"]` | Some. |"} {
		if !strings.Contains(table, row) {
			t.Errorf("the table has not %s:\n%s", row, table)
		}
	}
}
