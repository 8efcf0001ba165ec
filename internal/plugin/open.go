package plugin

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// openRun configures access to the web interface of a Coder.
type openRun struct {
	*Session
	port      int
	noBrowser bool
}

func (d *openRun) addFlags(cmd *cobra.Command) {
	cmd.Flags().IntVar(&d.port, "port", 0, "the local port; 0 for any free port")
	cmd.Flags().BoolVar(&d.noBrowser, "no-browser", false, "only print the address, and do not start a browser")
}

func (d *openRun) validate() error {
	if d.port < 0 || d.port > 65535 {
		return cli.Usage("--port is %d, and must be 0 to 65535", d.port)
	}
	return nil
}

func newOpenCommand(s *Session) *cobra.Command {
	d := &openRun{Session: s}
	direct, start := false, false
	cmd := &cobra.Command{
		Use:   "open [WORKSPACE [APP] | controlplane/NAME]",
		Short: "Open a workspace, one of its apps, or Coder itself, in the browser",
		Long: "Forwards a port of this machine to a pod of Coder and opens the browser there, until it is interrupted. Without an\n" +
			"argument it opens the control plane of the namespace. The address is printed to standard output.\n" +
			"A name without an owner, such as dev, is one of your own workspaces.\n\n" +
			"APP is the slug of an app in status.agents, or AGENT/SLUG. An app that has a host of its own is opened at that host, without\n" +
			"a port-forward. The address of an app that is no web page is printed only, because it could start any program.",
		Example:           "  kubectl coder open -n coder\n  kubectl coder open coder.ada.dev\n  kubectl coder open dev code-server --start\n  kubectl coder open controlplane/coder --no-browser --port 8080",
		Args:              arguments(0, 2, "open one thing at a time: a workspace, an app of one, or controlplane/NAME"),
		RunE:              func(cmd *cobra.Command, args []string) error { return d.open(cmd.Context(), args, direct, start) },
		ValidArgsFunction: completeOpen(s),
	}
	d.addFlags(cmd)
	cmd.Flags().BoolVar(&direct, "access-url", false, "open Coder's access URL, without a port-forward")
	cmd.Flags().BoolVar(&start, "start", false, "start the workspace if it does not run, and wait until its agent is connected")
	return cmd
}

func (d *openRun) open(ctx context.Context, args []string, direct, start bool) error {
	if err := d.validate(); err != nil {
		return err
	}
	cluster, err := d.Cluster()
	if err != nil {
		return err
	}
	cp, ws, path, err := openTarget(ctx, cluster, args)
	if err != nil {
		return err
	}
	if start {
		if ws == nil {
			return cli.Usage("--start is for a workspace")
		}
		if err := (&agentCommand{Session: d.Session, timeout: startTimeout}).startAndWait(ctx, cluster, ws); err != nil {
			return err
		}
	}
	if len(args) == 2 {
		address, err := appAddress(ws, args[1])
		if err != nil {
			return err
		}
		own := ""
		if path, own = onControlPlane(address, cp.Status.AccessURL); own != "" {
			return d.showApp(ctx, own)
		}
	}
	if !direct {
		return d.enter(ctx, cluster, cp, path)
	}
	if cp.Status.AccessURL == "" {
		return fmt.Errorf("control plane %s/%s has no access URL: omit --access-url", cp.Namespace, cp.Name)
	}
	return d.show(ctx, strings.TrimRight(cp.Status.AccessURL, "/")+path)
}

// openTarget returns the control plane, the workspace if one was given, and the path in the web
// interface.
func openTarget(ctx context.Context, c *Cluster, args []string) (*coderv1alpha1.CoderControlPlane, *aggregationv1alpha1.CoderWorkspace, string, error) {
	target, err := optionalTarget(args, "CoderWorkspace", "CoderControlPlane")
	if err != nil {
		return nil, nil, "", err
	}
	if target.Kind == "CoderControlPlane" {
		if len(args) == 2 {
			return nil, nil, "", cli.Usage("a control plane has no app: give a workspace before %q", args[1])
		}
		cp, err := c.ControlPlane(ctx, target.Name)
		return cp, nil, "/", err
	}
	ws, err := c.OwnWorkspace(ctx, target.Name)
	if err != nil {
		return nil, nil, "", err
	}
	cp, err := c.ControlPlane(ctx, ws.Labels[aggregationv1alpha1.LabelControlPlaneName])
	return cp, ws, "/@" + url.PathEscape(ws.Status.OwnerName) + "/" + url.PathEscape(ws.Status.WorkspaceName), err
}

// enter forwards a port and opens the browser. It returns when ctx is done.
func (d *openRun) enter(ctx context.Context, c *Cluster, cp *coderv1alpha1.CoderControlPlane, path string) error {
	to, scheme, err := endpointOf(ctx, c, cp)
	if err != nil {
		return err
	}
	var failed error
	err = d.Forward(ctx, c, to, d.port, func(local int) {
		failed = d.show(ctx, fmt.Sprintf("%s://localhost:%d%s", scheme, local, path))
		fmt.Fprintf(d.ErrOut, "Coder of control plane %s/%s is available there until this command is interrupted (Ctrl-C).\n", cp.Namespace, cp.Name)
		if public := publicURL(ctx, c, cp); public != "" {
			fmt.Fprintf(d.ErrOut, "Without this command, its address is %s\n", cli.Clean(strings.TrimSuffix(public, "/")+path))
		}
	})
	if ctx.Err() != nil {
		// This is the normal end of the command.
		return failed
	}
	return err
}

// show prints the URL and opens it. If the browser cannot be started, show prints the error, and
// the user can open the URL. A URL that is not http or https is an error: a user could have written
// it into a status, and it could start any program.
func (d *openRun) show(ctx context.Context, address string) error {
	if !isWeb(address) {
		return fmt.Errorf("the URL %q in the status of the control plane is not an HTTP or HTTPS URL", address)
	}
	if _, err := fmt.Fprintln(d.Out, cli.Clean(address)); err != nil {
		return err
	}
	if d.noBrowser {
		return nil
	}
	if err := d.Browse(ctx, address); err != nil {
		fmt.Fprintf(d.ErrOut, "%v; open the address above manually\n", err)
	}
	return nil
}

// isWeb reports whether an address is an HTTP or HTTPS URL.
func isWeb(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// publicURL returns the URL of a Coder that a browser outside of the cluster can open without a
// port-forward: Coder's access URL, or the address of its load balancer. It returns an empty string
// if there is none.
func publicURL(ctx context.Context, c *Cluster, cp *coderv1alpha1.CoderControlPlane) string {
	if u, err := url.Parse(cp.Status.AccessURL); err == nil && isWeb(cp.Status.AccessURL) && !insideCluster(u.Hostname()) {
		return cp.Status.AccessURL
	}
	inside, service, err := serviceOf(ctx, c, cp)
	if err != nil {
		// For example, a user without permission to read the Service uses the port-forward.
		return ""
	}
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		host := cmp.Or(ingress.Hostname, ingress.IP)
		if host == "" {
			continue
		}
		port := inside.Port()
		if port == "80" || port == "443" {
			port = ""
		}
		// JoinHostPort adds brackets to an IPv6 address.
		return inside.Scheme + "://" + strings.TrimSuffix(net.JoinHostPort(host, port), ":")
	}
	return ""
}

// insideCluster reports whether a host is only known to the cluster's DNS.
func insideCluster(host string) bool {
	return strings.HasSuffix(host, ".svc") || strings.Contains(host, ".svc.")
}
