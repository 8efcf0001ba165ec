package plugin

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// CompletionTimeout is the maximum time that a shell waits for names.
const CompletionTimeout = 5 * time.Second

// CompleteNames completes any number of names of objects of these kinds: names of the first kind as
// they are, the others as KIND/NAME. As in the commands, any alias of a kind can be used. If the cluster
// does not answer, there are no completions.
func (s *Session) CompleteNames(kinds ...string) cobra.CompletionFunc {
	return s.complete(func(ctx context.Context, c *Cluster, _ []string, begun string) []string {
		word, _, typed := strings.Cut(begun, "/")
		var offered []string
		for i, kind := range kinds {
			prefix := ""
			switch {
			case typed && aliases[strings.ToLower(word)] == kind:
				prefix = word + "/"
			case typed:
				continue
			case i > 0:
				prefix = strings.ToLower(strings.TrimPrefix(kind, "Coder")) + "/"
			}
			for _, name := range c.names(ctx, kind) {
				offered = append(offered, prefix+name)
			}
		}
		return offered
	})
}

// CompleteName is CompleteNames for a command that takes one name.
func (s *Session) CompleteName(kinds ...string) cobra.CompletionFunc {
	names := s.CompleteNames(kinds...)
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(cmd, args, begun)
	}
}

// complete offers the results of find that begin with the typed text.
func (s *Session) complete(find func(ctx context.Context, c *Cluster, args []string, begun string) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		cluster, err := s.Cluster()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), CompletionTimeout)
		defer cancel()
		return offer(find(ctx, cluster, args, begun), args, begun)
	}
}

// offer returns the texts that begin with the typed text, each once, without the arguments.
func offer(all, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	var offered []string
	for _, text := range all {
		if text != "" && strings.HasPrefix(text, begun) && !slices.Contains(args, text) && !slices.Contains(offered, text) {
			offered = append(offered, text)
		}
	}
	return offered, cobra.ShellCompDirectiveNoFileComp
}

// CompleteFlag completes a flag of a command with the results of find. args are the arguments of
// the command.
func (s *Session) CompleteFlag(cmd *cobra.Command, flag string, find func(ctx context.Context, c *Cluster, args []string, begun string) []string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, s.complete(find))
}

// CompleteWorkspaceFields completes a flag with values of the workspaces in the namespace.
func (s *Session) CompleteWorkspaceFields(cmd *cobra.Command, flag string, values func(*aggregationv1alpha1.CoderWorkspace) []string) {
	s.CompleteFlag(cmd, flag, func(ctx context.Context, c *Cluster, _ []string, _ string) []string {
		var list aggregationv1alpha1.CoderWorkspaceList
		if c.List(ctx, &list, client.InNamespace(c.Namespace)) != nil {
			return nil
		}
		var all []string
		for i := range list.Items {
			all = append(all, values(&list.Items[i])...)
		}
		slices.Sort(all)
		return all
	})
}

// CompleteFlagOf completes a flag with the results of find for the object in the first argument of
// the command, which has one of these kinds.
func (s *Session) CompleteFlagOf(cmd *cobra.Command, flag string, find func(context.Context, *Cluster, Target) []string, kinds ...string) {
	s.CompleteFlag(cmd, flag, func(ctx context.Context, c *Cluster, args []string, _ string) []string {
		if len(args) == 0 {
			return nil
		}
		target, err := ParseTarget(args[0], kinds...)
		if err != nil {
			return nil
		}
		return find(ctx, c, target)
	})
}

// CompleteAgents completes a flag with the agents of the workspace in the first argument, which find returns.
func (s *Session) CompleteAgents(
	cmd *cobra.Command, flag string, find func(c *Cluster, ctx context.Context, name string) (*aggregationv1alpha1.CoderWorkspace, error),
) {
	s.CompleteFlagOf(cmd, flag, func(ctx context.Context, c *Cluster, target Target) []string {
		ws, err := find(c, ctx, target.Name)
		if err != nil {
			return nil
		}
		var names []string
		for _, agent := range ws.Status.Agents {
			names = append(names, agent.Name)
		}
		return names
	}, "CoderWorkspace")
}

// CompleteVersions completes --version with the versions of the template in the first argument, which
// has one of these kinds. The newest are first, and archived ones are left out.
func (s *Session) CompleteVersions(cmd *cobra.Command, kinds ...string) {
	s.CompleteFlagOf(cmd, "version", func(ctx context.Context, c *Cluster, target Target) []string {
		if target.Kind != "CoderTemplate" {
			return nil
		}
		tmpl, err := c.Template(ctx, target.Name)
		if err != nil {
			return nil
		}
		versions, err := c.templateVersions(ctx, tmpl)
		if err != nil {
			return nil
		}
		var names []string
		for _, v := range versions {
			if !v.Status.Archived {
				names = append(names, v.Status.VersionName)
			}
		}
		return names
	}, kinds...)
}

// CompleteNamespaces completes a flag with the namespaces of the cluster.
func (s *Session) CompleteNamespaces(cmd *cobra.Command, flag string) {
	s.CompleteFlag(cmd, flag, func(ctx context.Context, c *Cluster, _ []string, _ string) []string { return c.names(ctx, "Namespace") })
}

// names returns the names of all objects of a kind, in the namespace if the kind is namespaced.
func (c *Cluster) names(ctx context.Context, kind string) []string {
	known, err := c.RESTMapper().KindFor(schema.GroupVersionResource{Resource: kind})
	if err != nil {
		return nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(known.GroupVersion().WithKind(kind + "List"))
	if c.List(ctx, list, client.InNamespace(c.Namespace)) != nil {
		return nil
	}
	all := make([]string, 0, len(list.Items))
	for i := range list.Items {
		all = append(all, list.Items[i].Name)
	}
	return all
}
