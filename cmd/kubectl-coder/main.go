// Command kubectl-coder is kubectl coder, a kubectl plugin that shows the state of Coder on a
// cluster and operates its workspaces and templates.
package main

import (
	"os"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/plugin"
)

func main() { os.Exit(cli.Main(plugin.Run)) }
