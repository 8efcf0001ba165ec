// Command chart generates those parts of the Helm chart charts/coder-k8s that have another source:
//
//   - custom resource definitions, roles, bindings and the admission policies from config/, as
//     templates in templates/generated;
//   - values.yaml and docs/reference/helm-values.md from values.schema.json.
//
// Its argument is the root of the repository. It renders config/ with kustomize, so that overlays
// and patches apply. Deployments and Services are written by hand, because they depend on many
// values; test/chart compares them with the rendering of config/.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: chart ROOT, the root of the repository")
		os.Exit(2)
	}
	if err := generate(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// generate writes all generated files.
func generate(root string) error {
	chart := filepath.Join(root, "charts", "coder-k8s")
	files, err := templates(root)
	if err != nil {
		return err
	}
	schema, err := readSchema(filepath.Join(chart, "values.schema.json"))
	if err != nil {
		return err
	}
	values, err := valuesFile(schema)
	if err != nil {
		return err
	}
	generated := filepath.Join(chart, "templates", "generated")
	errs := []error{
		os.RemoveAll(generated),
		write(filepath.Join(chart, "values.yaml"), values),
		write(filepath.Join(root, "docs", "reference", "helm-values.md"), valuesTable(schema)),
	}
	for name, content := range files {
		errs = append(errs, write(filepath.Join(generated, name), content))
	}
	return errors.Join(errs...)
}

func write(path, content string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o644)
}
