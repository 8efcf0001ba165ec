package access

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/plugin/session"
)

// appAddress returns the URL of an app, which is identified by its slug or AGENT/SLUG.
func appAddress(ws *aggregationv1alpha1.CoderWorkspace, wanted string) (string, error) {
	var names []string
	var found []aggregationv1alpha1.WorkspaceApp
	for _, agent := range ws.Status.Agents {
		for _, app := range agent.Apps {
			name := agent.Name + "/" + app.Slug
			names = append(names, name)
			if wanted == app.Slug || wanted == name {
				found = append(found, app)
			}
		}
	}
	switch {
	case len(names) == 0:
		return "", fmt.Errorf("workspace %s has no apps: they are there while it runs, and its template must define them (coder_app)", ws.Name)
	case len(found) == 0:
		return "", fmt.Errorf("workspace %s has no app %q, only %s", ws.Name, wanted, strings.Join(names, ", "))
	case len(found) > 1:
		return "", fmt.Errorf("workspace %s has several apps %q: give one of %s", ws.Name, wanted, strings.Join(names, ", "))
	case found[0].URL == "":
		return "", fmt.Errorf("app %s of workspace %s has no address", wanted, ws.Name)
	}
	return found[0].URL, nil
}

// onControlPlane returns the path of an app that Coder itself serves, or the URL of an app with its
// own host.
func onControlPlane(address, accessURL string) (path, own string) {
	u, err := url.Parse(address)
	if err != nil {
		return "", address
	}
	base, err := url.Parse(accessURL)
	if u.Scheme == "" && u.Host == "" || err == nil && u.Scheme == base.Scheme && u.Host == base.Host {
		return "/" + strings.TrimPrefix(u.RequestURI(), "/"), ""
	}
	return "", address
}

// showApp opens the URL of an app. A URL that is not http or https could start any program, so it
// is only printed.
func (d *door) showApp(ctx context.Context, address string) error {
	if u, err := url.Parse(address); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		return d.show(ctx, address)
	}
	fmt.Fprintln(d.Out, cli.Clean(address))
	fmt.Fprintln(d.ErrOut, "This is no address of the web, so it was not opened.")
	return nil
}

// completeOpen completes workspaces and control planes, and then the apps of a workspace.
func completeOpen(s *session.Session) cobra.CompletionFunc {
	names := s.CompleteNames("CoderWorkspace", "CoderControlPlane")
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return names(cmd, args, begun)
		}
		cluster, err := s.Cluster()
		if err != nil || len(args) > 1 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), session.CompletionTimeout)
		defer cancel()
		var offered []string
		if ws, err := cluster.Workspace(ctx, args[0]); err == nil {
			for _, agent := range ws.Status.Agents {
				for _, app := range agent.Apps {
					if strings.HasPrefix(app.Slug, begun) {
						offered = append(offered, app.Slug)
					}
				}
			}
		}
		return offered, cobra.ShellCompDirectiveNoFileComp
	}
}
