package app

import (
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/coder-k8s/coder-k8s/internal/check"
	"github.com/coder-k8s/coder-k8s/internal/export"
	"github.com/coder-k8s/coder-k8s/internal/migrate"
	"github.com/coder-k8s/coder-k8s/internal/supportbundle"
	"github.com/coder-k8s/coder-k8s/internal/uninstall"
)

// subcommands returns the commands for users, besides the process itself.
func subcommands(streams genericiooptions.IOStreams) []*cobra.Command {
	commands := []*cobra.Command{
		check.NewCommand(streams),
		export.NewCommand(streams),
		migrate.NewCommand(streams),
		supportbundle.NewCommand(streams),
		uninstall.NewCommand(streams),
	}
	for _, command := range commands {
		command.SetHelpFunc((&cobra.Command{}).HelpFunc())
	}
	return commands
}
