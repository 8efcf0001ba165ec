// Command kubectl-coder is kubectl coder, a kubectl plugin that shows the state of Coder on a
// cluster and operates its workspaces and templates.
package main

import (
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/plugin"
)

func main() {
	// client-go logs errors that it also returns, and those of streams that the user has ended.
	klog.SetLogger(logr.Discard())
	os.Exit(cli.Main(plugin.Run))
}
