// Command coder-k8s runs Coder on Kubernetes. It contains the controllers, an aggregated API server
// and an MCP server, which run together or separately.
package main

import (
	"os"

	"github.com/coder-k8s/coder-k8s/internal/app"
	"github.com/coder-k8s/coder-k8s/internal/cli"
)

func main() { os.Exit(cli.Main(app.Run)) }
