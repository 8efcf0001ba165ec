// Command generate makes the generated files that no other tool makes. hack/generate.sh calls it:
//
//	generate crds FILE...                  shortens custom resource definitions
//	generate mcp-role [inside]             prints the ClusterRole of the MCP server
//	generate mcp-reference                 prints docs/reference/mcp.md
//	generate plugin-reference              prints docs/reference/kubectl-coder.md
//	generate metrics-reference             prints docs/reference/metrics.md
//	generate conditions-reference API AGGREGATED
//	                                       prints docs/reference/conditions.md
//	generate chart-values SCHEMA            prints values.yaml of the Helm chart
//	generate chart-reference SCHEMA         prints docs/reference/helm-values.md
//	generate api-reference FILE DIRECTORY  writes a page for each kind, from the output of
//	                                       crd-ref-docs
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: generate WHAT [ARGUMENT...]")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(what string, args []string) error {
	switch {
	case what == "crds":
		for _, path := range args {
			if err := shortenDefinition(path); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		return nil
	case what == "mcp-role":
		return writeMCPRole(os.Stdout, len(args) > 0 && args[0] == toolset.Inside)
	case what == "mcp-reference":
		return writeMCPReference(context.Background(), os.Stdout)
	case what == "plugin-reference":
		writePluginReference(os.Stdout)
		return nil
	case what == "metrics-reference":
		return writeMetricsReference(os.Stdout)
	case what == "conditions-reference" && len(args) == 2:
		return writeConditions(args[0], args[1])
	case (what == "chart-values" || what == "chart-reference") && len(args) == 1:
		return writeChartValues(os.Stdout, args[0], what == "chart-reference")
	case what == "api-reference" && len(args) == 2:
		return writeAPIReference(args[0], args[1])
	}
	return fmt.Errorf("unknown arguments %q: see the comment in hack/generate/main.go", append([]string{what}, args...))
}
