package workspace

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/plugin/session"
)

// selection selects workspaces.
type selection struct {
	names           []string
	labels          string
	all, everywhere bool
	owner, template string
}

func (s *selection) addFlags(cmd *cobra.Command, completing *session.Session) {
	flags := cmd.Flags()
	flags.StringVarP(&s.labels, "selector", "l", "", "workspaces with these labels, as team=compilers")
	flags.BoolVar(&s.all, "all", false, "all workspaces of the namespace")
	flags.BoolVarP(&s.everywhere, "all-namespaces", "A", false, "with --all or -l: those of all namespaces")
	flags.StringVar(&s.owner, "owner", "", "with --all or -l: only those of this user of Coder")
	flags.StringVar(&s.template, "template", "", "with --all or -l: only those of this template, for example kubernetes or coder.kubernetes")
	completing.CompleteWorkspaceFields(cmd, "owner", func(ws *aggregationv1alpha1.CoderWorkspace) []string {
		return []string{ws.Status.OwnerName}
	})
	completing.CompleteWorkspaceFields(cmd, "template", func(ws *aggregationv1alpha1.CoderWorkspace) []string {
		return []string{ws.Status.TemplateName}
	})
	completing.CompleteWorkspaceFields(cmd, "selector", func(ws *aggregationv1alpha1.CoderWorkspace) []string {
		var pairs []string
		for key, value := range ws.Labels {
			pairs = append(pairs, key+"="+value)
		}
		return pairs
	})
}

// validate refuses ambiguous selections, which could match more workspaces than intended.
func (s *selection) validate() error {
	named, many := len(s.names) > 0, s.all || s.labels != ""
	switch {
	case named && (many || s.everywhere || s.owner != "" || s.template != ""):
		return cli.Usage("give names, or choose with -l or --all, not both")
	case s.all && s.labels != "":
		return cli.Usage("give -l or --all, not both")
	case !named && !many:
		return cli.Usage("which workspaces? Give names, -l SELECTOR or --all")
	}
	if _, err := labels.Parse(s.labels); err != nil {
		return cli.Usage("--selector: %v", err)
	}
	return nil
}

// find reads the workspaces. It returns an error if there are none.
func (s *selection) find(ctx context.Context, c *session.Cluster) ([]aggregationv1alpha1.CoderWorkspace, error) {
	if len(s.names) > 0 {
		return findNamed(ctx, c, s.names)
	}
	selector, err := labels.Parse(s.labels)
	if err != nil {
		return nil, cli.Usage("--selector: %v", err)
	}
	options := &client.ListOptions{Namespace: c.Namespace, LabelSelector: selector}
	where := "namespace " + c.Namespace
	if s.everywhere {
		options.Namespace, where = "", "any namespace"
	}
	var list aggregationv1alpha1.CoderWorkspaceList
	if err := c.List(ctx, &list, options); err != nil {
		return nil, err
	}
	var found []aggregationv1alpha1.CoderWorkspace
	for _, ws := range list.Items {
		if (s.owner == "" || ws.Status.OwnerName == s.owner) && s.ofTemplate(&ws) {
			found = append(found, ws)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("there is no such workspace in %s: kubectl get coderworkspaces -A --show-labels lists all", where)
	}
	return found, nil
}

// ofTemplate reports whether the workspace belongs to the wanted template, which is given by its
// name in Coder or by the name of its object.
func (s *selection) ofTemplate(ws *aggregationv1alpha1.CoderWorkspace) bool {
	return s.template == "" || s.template == ws.Status.TemplateName || s.template == templateOf(ws)
}

func findNamed(ctx context.Context, c *session.Cluster, names []string) ([]aggregationv1alpha1.CoderWorkspace, error) {
	var found []aggregationv1alpha1.CoderWorkspace
	for _, text := range names {
		target, err := session.ParseTarget(text, "CoderWorkspace")
		if err != nil {
			return nil, err
		}
		ws, err := c.Workspace(ctx, target.Name)
		if err != nil {
			return nil, err
		}
		found = append(found, *ws)
	}
	return found, nil
}
