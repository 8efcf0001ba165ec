// Command monitoring writes the reference of the metrics, docs/reference/metrics.md, from the
// metrics that the code registers:
//
//	go run ./hack/monitoring [DIRECTORY OF THE REPOSITORY]
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	content, err := metricReference()
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "docs/reference/metrics.md"), content, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error: writing the reference of the metrics:", err)
		os.Exit(1)
	}
}
