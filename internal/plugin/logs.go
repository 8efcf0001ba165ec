package plugin

import (
	"context"
	"strconv"
	"sync"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/coder-k8s/coder-k8s/internal/cli"
)

type logsRun struct {
	*Session
	cluster *Cluster
	flags   *cobra.Command
	// writing protects standard output if several logs are followed.
	writing sync.Mutex

	follow, previous, agent, scripts bool
	build                            int32
	version, container               string
	agentName, script                string
	tail                             int64
	podNamespaces                    []string
}

func newLogsCommand(s *Session) *cobra.Command {
	r := &logsRun{Session: s}
	cmd := &cobra.Command{
		Use:   "logs {WORKSPACE | template/TEMPLATE | controlplane/NAME}",
		Short: "Print the log of a build, or of the pods of a workspace or control plane",
		Long: "Prints the log of the newest build of a workspace, of the newest version of a template, with --scripts what the\n" +
			"scripts of the workspace's agent wrote, for example its startup script, or with --agent the logs of the workspace's\n" +
			"pods. Of a control plane it prints the logs of Coder's pods.\n\n" +
			"The pods of a workspace are found by the label com.coder.workspace.id, which the templates of Coder set, in the\n" +
			"namespace of the control plane and in those in which it may make workspaces; --pod-namespace names others.",
		Example: "  kubectl coder logs coder.ada.dev -f\n  kubectl coder logs dev --build 3\n" +
			"  kubectl coder logs template/hello\n  kubectl coder logs dev --scripts -f\n  kubectl coder logs dev --agent --previous\n  kubectl coder logs controlplane/coder --tail 20",
		Args:              arguments(1, 1, "give the name of one workspace, template/NAME or controlplane/NAME"),
		RunE:              func(cmd *cobra.Command, args []string) error { return r.do(cmd.Context(), args[0]) },
		ValidArgsFunction: s.CompleteName("CoderWorkspace", "CoderTemplate", "CoderControlPlane"),
	}
	r.flags = cmd
	flags := cmd.Flags()
	flags.BoolVarP(&r.follow, "follow", "f", false, "follow the log until the build has finished, or the containers have stopped")
	flags.Int64Var(&r.tail, "tail", -1, "number of lines from the end; -1 for all")
	flags.Int32Var(&r.build, "build", 0, "of a workspace: the number of the build; 0 is the newest")
	flags.StringVar(&r.version, "version", "", "of a template: the name or UUID of the version; the newest one if not given")
	flags.BoolVar(&r.agent, "agent", false, "of a workspace: the logs of its pods")
	flags.BoolVar(&r.scripts, "scripts", false, "of a workspace: what the scripts of its agent wrote since the newest build")
	flags.StringVar(&r.agentName, "agent-name", "", "with --scripts: the agent; needed if the workspace has several")
	flags.StringVar(&r.script, "script", "", "with --scripts: only this script, for example \"Startup Script\"")
	flags.BoolVar(&r.previous, "previous", false, "of pods: the log before the last restart, of the container of -c or of those that were restarted")
	flags.StringVarP(&r.container, "container", "c", "", "of pods: only this container or init container")
	flags.StringSliceVar(&r.podNamespaces, "pod-namespace", nil, "with --agent: where to look for the pods")
	r.completeFlags(cmd)
	return cmd
}

func (r *logsRun) do(ctx context.Context, text string) error {
	target, err := ParseTarget(text, "CoderWorkspace", "CoderTemplate", "CoderControlPlane")
	if err != nil {
		return err
	}
	if err := r.validate(target); err != nil {
		return err
	}
	if r.cluster, err = r.Cluster(); err != nil {
		return err
	}
	switch {
	case target.Kind == "CoderControlPlane":
		return r.controlPlane(ctx, target.Name)
	case target.Kind == "CoderTemplate":
		return r.template(ctx, target.Name)
	case r.agent:
		return r.workspacePods(ctx, target.Name)
	}
	return r.workspace(ctx, target.Name)
}

// validate refuses flags that have no effect for the target.
func (r *logsRun) validate(target Target) error {
	pods := r.agent || target.Kind == "CoderControlPlane"
	for flag, counts := range map[string]bool{
		"build": target.Kind == "CoderWorkspace" && !r.agent && !r.scripts, "scripts": target.Kind == "CoderWorkspace" && !r.agent,
		"agent-name": r.scripts, "script": r.scripts, "version": target.Kind == "CoderTemplate",
		"agent": target.Kind == "CoderWorkspace", "pod-namespace": r.agent, "previous": pods, "container": pods,
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
	r.CompleteNamespaces(cmd, "pod-namespace")
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
	r.CompleteFlagOf(cmd, "container", func(ctx context.Context, c *Cluster, target Target) []string {
		var pods []corev1.Pod
		switch target.Kind {
		case "CoderControlPlane":
			pods, _ = c.PodsOf(ctx, c.Namespace, target.Name)
		case "CoderWorkspace":
			if ws, err := c.Workspace(ctx, target.Name); err == nil {
				pods, _, _ = c.WorkspacePods(ctx, ws, r.podNamespaces)
			}
		}
		var names []string
		for i := range pods {
			names = append(names, containerNames(&pods[i])...)
		}
		return names
	}, "CoderWorkspace", "CoderControlPlane")
}
