package session

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CompletionTimeout bounds how long a shell waits for names.
const CompletionTimeout = 5 * time.Second

// CompleteNames completes the names of objects of these kinds, those of the first
// kind as they are and the others as KIND/NAME. Where the cluster does not answer
// there is nothing to offer.
func (s *Session) CompleteNames(kinds ...string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		cluster, err := s.Cluster()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), CompletionTimeout)
		defer cancel()
		var offered []string
		for i, kind := range kinds {
			for _, name := range cluster.names(ctx, kind) {
				if i > 0 {
					name = shortKind(kind) + "/" + name
				}
				if strings.HasPrefix(name, begun) && !slices.Contains(args, name) {
					offered = append(offered, name)
				}
			}
		}
		return offered, cobra.ShellCompDirectiveNoFileComp
	}
}

// names are those of all objects of a kind in the namespace.
func (c *Cluster) names(ctx context.Context, kind string) []string {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kindOf(kind).GroupVersion().WithKind(kind + "List"))
	if c.List(ctx, list, client.InNamespace(c.Namespace)) != nil {
		return nil
	}
	all := make([]string, 0, len(list.Items))
	for i := range list.Items {
		all = append(all, list.Items[i].Name)
	}
	return all
}

func kindOf(kind string) schema.GroupVersionKind {
	for _, known := range Kinds() {
		if known.Kind == kind {
			return known
		}
	}
	return schema.GroupVersionKind{Kind: kind}
}

// shortKind is what people may write for a kind, the shortest whole word.
func shortKind(kind string) string { return strings.ToLower(strings.TrimPrefix(kind, "Coder")) }

// CompleteFlags completes the values of the flags that choose the cluster.
func (s *Session) CompleteFlags(cmd *cobra.Command) {
	_ = cmd.RegisterFlagCompletionFunc("namespace", func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		cluster, err := s.Cluster()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), CompletionTimeout)
		defer cancel()
		list, err := cluster.Kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var offered []string
		for i := range list.Items {
			if name := list.Items[i].Name; strings.HasPrefix(name, begun) {
				offered = append(offered, name)
			}
		}
		return offered, cobra.ShellCompDirectiveNoFileComp
	})
	_ = cmd.RegisterFlagCompletionFunc("context", func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		config, err := s.Flags.ToRawKubeConfigLoader().RawConfig()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var offered []string
		for _, name := range slices.Sorted(maps.Keys(config.Contexts)) {
			if strings.HasPrefix(name, begun) {
				offered = append(offered, name)
			}
		}
		return offered, cobra.ShellCompDirectiveNoFileComp
	})
}
