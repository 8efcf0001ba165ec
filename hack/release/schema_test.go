package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// cycloneDX returns the published schema of SBOMs from the source of the library. Its part about
// keys and certificates is in a file that the library does not contain; our SBOMs have none.
func cycloneDX(t *testing.T) *jsonschema.Schema {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	const base = "http://cyclonedx.org/schema/"
	add := func(name string, content []byte) {
		schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource(base+name, schema); err != nil {
			t.Fatal(err)
		}
	}
	for name, file := range map[string]string{
		"bom-1.7.schema.json": "bom-1.7.schema.json", "spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json",
	} {
		content, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "schema", file))
		if err != nil {
			t.Fatal(err)
		}
		add(name, content)
	}
	add("cryptography-defs.schema.json", []byte(`{"definitions": {"algorithmFamiliesEnum": {}, "ellipticCurvesEnum": {}}}`))
	schema, err := compiler.Compile(base + "bom-1.7.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestSBOMFitsTheSchema(t *testing.T) {
	schema := cycloneDX(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	lists := map[string][]byte{
		"program": made(t, "sbom", "-name", "coder-k8s", "-version", "v1.2.3", "-license", "Apache-2.0 AND AGPL-3.0-only", program),
		"image": made(t, "sbom", "-name", "coder-k8s", "-version", "v1.2.3", "-license", "Apache-2.0 AND AGPL-3.0-only",
			"-digest", "sha256:"+strings.Repeat("ab", 32), "-platform", "linux/amd64", program),
	}
	// RELEASE is a directory with a complete release, whose SBOMs are also checked.
	files, err := filepath.Glob(filepath.Join(os.Getenv("RELEASE"), "*.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if lists[file], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	for name, raw := range lists {
		list, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := schema.Validate(list); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := schema.Validate(map[string]any{"bomFormat": "CycloneDX", "specVersion": 7}); err == nil {
		t.Error("the schema takes a list without a version: it checks nothing")
	}
}
