package logs

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/coder-k8s/coder-k8s/internal/plugin/session"
)

// mostBuilds is the maximum number of build numbers to complete, starting with the newest.
const mostBuilds = 20

// completeFlags registers completions for the flags whose values are read from the cluster.
func (r *run) completeFlags(cmd *cobra.Command) {
	r.CompleteAgents(cmd, "agent-name")
	r.CompleteNamespaces(cmd, "pod-namespace")
	r.CompleteFlag(cmd, "build", offer(func(ctx context.Context, c *session.Cluster, target session.Target) []string {
		ws, err := c.Workspace(ctx, target.Name)
		if err != nil || target.Kind != "CoderWorkspace" || ws.Status.LatestBuild == nil {
			return nil
		}
		var numbers []string
		for n := int(ws.Status.LatestBuild.Number); n > 0 && len(numbers) < mostBuilds; n-- {
			numbers = append(numbers, strconv.Itoa(n))
		}
		return numbers
	}))
	r.CompleteFlag(cmd, "version", offer(func(ctx context.Context, c *session.Cluster, target session.Target) []string {
		tmpl, err := c.Template(ctx, target.Name)
		if err != nil || target.Kind != "CoderTemplate" {
			return nil
		}
		return c.TemplateVersionNames(ctx, tmpl)
	}))
	r.CompleteFlag(cmd, "container", offer(func(ctx context.Context, c *session.Cluster, target session.Target) []string {
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
			for _, container := range pods[i].Spec.Containers {
				names = append(names, container.Name)
			}
		}
		return names
	}))
}

// offer parses the command's argument before it calls find.
func offer(find func(context.Context, *session.Cluster, session.Target) []string) func(context.Context, *session.Cluster, []string) []string {
	return func(ctx context.Context, c *session.Cluster, args []string) []string {
		if len(args) == 0 {
			return nil
		}
		target, err := session.ParseTarget(args[0], "CoderWorkspace", "CoderTemplate", "CoderControlPlane")
		if err != nil {
			return nil
		}
		return find(ctx, c, target)
	}
}
