package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
