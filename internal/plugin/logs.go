package plugin

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/coder-k8s/coder-k8s/internal/cli"
)

type logsRun struct {
	*Session
	cluster *Cluster
	flags   *cobra.Command

	follow, scripts            bool
	build                      int32
	version, agentName, script string
	tail                       int64
}

func newLogsCommand(s *Session) *cobra.Command {
	r := &logsRun{Session: s}
	cmd := &cobra.Command{
		Use:   "logs {WORKSPACE | template/TEMPLATE}",
		Short: "Print the log of a build, or of the scripts of an agent",
		Long: "Prints the log of the newest build of a workspace, of the newest version of a template, or with --scripts what the\n" +
			"scripts of the workspace's agent wrote, for example its startup script.\n\n" +
			"For the logs of pods use kubectl logs: deploy/NAME for a control plane, and --tail=-1 -l com.coder.workspace.id=ID for\n" +
			"a workspace, whose ID is in status.id. Its pods may be in another namespace: see spec.rbac of the control plane.",
		Example: "  kubectl coder logs coder.ada.dev -f\n  kubectl coder logs dev --build 3\n" +
			"  kubectl coder logs template/hello\n  kubectl coder logs dev --scripts -f",
		Args:              arguments(1, 1, "give the name of one workspace or template/NAME"),
		RunE:              func(cmd *cobra.Command, args []string) error { return r.do(cmd.Context(), args[0]) },
		ValidArgsFunction: s.CompleteName("CoderWorkspace", "CoderTemplate"),
	}
	r.flags = cmd
	flags := cmd.Flags()
	flags.BoolVarP(&r.follow, "follow", "f", false, "follow the log until the build has finished")
	flags.Int64Var(&r.tail, "tail", -1, "number of lines from the end; -1 for all")
	flags.Int32Var(&r.build, "build", 0, "of a workspace: the number of the build; 0 is the newest")
	flags.StringVar(&r.version, "version", "", "of a template: the name or UUID of the version; the newest one if not given")
	flags.BoolVar(&r.scripts, "scripts", false, "of a workspace: what the scripts of its agent wrote since the newest build")
	flags.StringVar(&r.agentName, "agent-name", "", "with --scripts: the agent; needed if the workspace has several")
	flags.StringVar(&r.script, "script", "", "with --scripts: only this script, for example \"Startup Script\"")
	r.completeFlags(cmd)
	return cmd
}

func (r *logsRun) do(ctx context.Context, text string) error {
	target, err := ParseTarget(text, "CoderWorkspace", "CoderTemplate")
	if err != nil {
		return err
	}
	if err := r.validate(target); err != nil {
		return err
	}
	if r.cluster, err = r.Cluster(); err != nil {
		return err
	}
	if target.Kind == "CoderTemplate" {
		return r.template(ctx, target.Name)
	}
	return r.workspace(ctx, target.Name)
}

// validate refuses flags that have no effect for the target.
func (r *logsRun) validate(target Target) error {
	for flag, counts := range map[string]bool{
		"build": target.Kind == "CoderWorkspace" && !r.scripts, "scripts": target.Kind == "CoderWorkspace",
		"agent-name": r.scripts, "script": r.scripts, "version": target.Kind == "CoderTemplate",
	} {
		if r.flags.Flags().Changed(flag) && !counts {
			return cli.Usage("--%s does not apply here: see --help", flag)
		}
	}
	if r.tail < -1 {
		return cli.Usage("--tail is %d, and must be a number of lines, or -1 for all", r.tail)
	}
	return nil
}

// mostOfferedBuilds is the maximum number of build numbers to complete, starting with the newest.
const mostOfferedBuilds = 20

// completeFlags registers completions for the flags whose values are read from the cluster.
func (r *logsRun) completeFlags(cmd *cobra.Command) {
	r.CompleteAgents(cmd, "agent-name", (*Cluster).Workspace)
	r.CompleteVersions(cmd, "CoderWorkspace", "CoderTemplate")
	r.CompleteFlagOf(cmd, "build", func(ctx context.Context, c *Cluster, target Target) []string {
		ws, err := c.Workspace(ctx, target.Name)
		if err != nil {
			return nil
		}
		var numbers []string
		for n := int(buildNumber(ws)); n > 0 && len(numbers) < mostOfferedBuilds; n-- {
			numbers = append(numbers, strconv.Itoa(n))
		}
		return numbers
	}, "CoderWorkspace")
}
