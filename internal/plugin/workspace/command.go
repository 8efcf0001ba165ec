package workspace

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/plugin/session"
)

// action describes one of the commands.
type action struct {
	verb, done string
	// phase is the phase of a workspace after the action. Empty means any.
	phase string
	// ends reports that the action ends running processes, so that the user must confirm it.
	ends bool
	// anew reports that the action always starts a build.
	anew bool
	// updates reports that the action changes the version in the spec, and uses no subresource.
	updates bool
}

// Commands returns the commands start, stop, restart and update.
func Commands(s *session.Session) []*cobra.Command {
	return []*cobra.Command{
		newCommand(s, action{verb: "start", done: "started", phase: "Running"}),
		newCommand(s, action{verb: "stop", done: "stopped", phase: "Stopped", ends: true}),
		newCommand(s, action{verb: "restart", done: "restarted", phase: "Running", ends: true, anew: true}),
		newUpdateCommand(s),
	}
}

func newUpdateCommand(s *session.Session) *cobra.Command {
	cmd := newCommand(s, action{verb: "update", done: "updated", ends: true, anew: true, updates: true})
	cmd.Short = "Bring workspaces to the active version of their templates"
	cmd.Long = "Builds workspaces again from the active version of their templates: it writes status.activeVersionID of the template\n" +
		"into spec.templateVersionID of the workspace. Those that have that version already are left as they are.\n" +
		"The end of a name will do where it is clear: dev for coder.ada.dev.\n" +
		"Without --wait the command ends as soon as Coder has taken the order.\n\n" +
		"Exit codes: 0 all were updated; 1 none was, or --wait saw one fail; 2 wrong command line; 3 some were, the others are named."
	return cmd
}

func newCommand(s *session.Session, a action) *cobra.Command {
	r := &run{Session: s, action: a}
	cmd := &cobra.Command{
		Use:   a.verb + " {NAME... | -l SELECTOR | --all}",
		Short: map[string]string{"start": "Start workspaces", "stop": "Stop workspaces", "restart": "Stop workspaces and start them again"}[a.verb],
		Long: fmt.Sprintf("%s workspaces. The end of a name will do where it is clear: dev for coder.ada.dev.\n"+
			"Without --wait the command ends as soon as Coder has taken the order.\n\n"+
			"Exit codes: 0 all were %s; 1 none was, or --wait saw one fail; 2 wrong command line; 3 some were, the others are named.",
			map[string]string{"start": "Starts", "stop": "Stops", "restart": "Restarts"}[a.verb], a.done),
		Example: fmt.Sprintf("  kubectl coder %[1]s coder.ada.dev --wait\n  kubectl coder %[1]s -n coder -l team=compilers\n"+
			"  kubectl coder %[1]s -A --all --template kubernetes", a.verb),
		RunE:              func(cmd *cobra.Command, args []string) error { return r.do(cmd.Context(), args) },
		ValidArgsFunction: s.CompleteNames("CoderWorkspace"),
	}
	r.selection.addFlags(cmd, s)
	r.format.AddFlag(cmd, cli.JSON, cli.YAML, cli.Name)
	flags := cmd.Flags()
	flags.BoolVar(&r.wait, "wait", false, "wait until it is done, and show how far it is")
	flags.DurationVar(&r.timeout, "timeout", 15*time.Minute, "how long --wait waits; 0 is for ever")
	flags.BoolVar(&r.dryRun, "dry-run", false, "ask whether it would be accepted, and do nothing")
	if a.ends {
		flags.BoolVarP(&r.yes, "yes", "y", false, "do not ask")
	}
	return cmd
}
