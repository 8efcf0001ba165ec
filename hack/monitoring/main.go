// Command monitoring writes what Prometheus, Grafana and people read about the
// operator from internal/monitoring: the manifests in config/monitoring and the
// references in docs.
//
//	go run ./hack/monitoring [DIRECTORY OF THE REPOSITORY]
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/coder-k8s/coder-k8s/internal/monitoring"
)

// generator makes one file.
type generator struct {
	path string
	make func() ([]byte, error)
}

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	if err := run(root); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	var errs []error
	for _, g := range []generator{
		{"config/monitoring/prometheusrule.yaml", func() ([]byte, error) { return prometheusRule(monitoring.AlertGroups()) }},
		{"config/monitoring/servicemonitor.yaml", serviceMonitor},
		{"config/monitoring/dashboard.json", func() ([]byte, error) { return dashboard(monitoring.Dashboard()) }},
		{"docs/reference/metrics.md", metricReference},
		{"docs/reference/alerts.md", func() ([]byte, error) { return alertReference(monitoring.AlertGroups()), nil }},
	} {
		content, err := g.make()
		if err != nil {
			errs = append(errs, fmt.Errorf("making %s: %w", g.path, err))
			continue
		}
		errs = append(errs, os.WriteFile(filepath.Join(root, g.path), content, 0o644))
	}
	return errors.Join(errs...)
}
