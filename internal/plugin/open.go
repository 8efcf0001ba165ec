package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/portforward"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/kube/remoteexec"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
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
		Example: "  kubectl coder open -n coder\n  kubectl coder open coder.ada.dev\n  kubectl coder open dev code-server --start\n  kubectl coder open controlplane/coder --no-browser --port 8080",
		Args:    arguments(0, 2, "open one thing at a time: a workspace, an app of one, or controlplane/NAME"),
		RunE:    func(cmd *cobra.Command, args []string) error { return d.open(cmd.Context(), args, direct, start) },
	}
	apps := s.complete(func(ctx context.Context, c *Cluster, args []string, _ string) []string {
		ws, err := c.OwnWorkspace(ctx, args[0])
		if err != nil {
			return nil
		}
		var slugs []string
		for _, agent := range ws.Status.Agents {
			for _, app := range agent.Apps {
				slugs = append(slugs, app.Slug)
			}
		}
		return slugs
	})
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return apps(cmd, args, begun)
		}
		return s.CompleteName("CoderWorkspace", "CoderControlPlane")(cmd, args, begun)
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
	target, err := optionalTarget(args, "CoderWorkspace", "CoderControlPlane")
	if err != nil {
		return err
	}
	var ws *aggregationv1alpha1.CoderWorkspace
	plane, path := target.Name, "/"
	if target.Kind == "CoderWorkspace" {
		if ws, err = cluster.OwnWorkspace(ctx, target.Name); err != nil {
			return err
		}
		plane = ws.Labels[aggregationv1alpha1.LabelControlPlaneName]
		path = "/@" + url.PathEscape(ws.Status.OwnerName) + "/" + url.PathEscape(ws.Status.WorkspaceName)
	} else if len(args) == 2 {
		return cli.Usage("a control plane has no app: give a workspace before %q", args[1])
	}
	cp, err := cluster.ControlPlane(ctx, plane)
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
			if isWeb(own) {
				return d.show(ctx, own)
			}
			// It could start any program, so it is only printed.
			fmt.Fprintln(d.Out, cli.Clean(own))
			fmt.Fprintln(d.ErrOut, "This is not an HTTP or HTTPS URL, so it was not opened.")
			return nil
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

func isWeb(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// publicURL returns the URL of a Coder that a browser outside of the cluster can open without a
// port-forward: Coder's access URL, or the address of its load balancer. It returns an empty string
// if there is none.
func publicURL(ctx context.Context, c *Cluster, cp *coderv1alpha1.CoderControlPlane) string {
	if u, err := url.Parse(cp.Status.AccessURL); err == nil && isWeb(cp.Status.AccessURL) {
		// A name of a Service is only known to the cluster's DNS.
		if host := u.Hostname(); !strings.HasSuffix(host, ".svc") && !strings.Contains(host, ".svc.") {
			return cp.Status.AccessURL
		}
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

// serviceOf returns status.url of a control plane, which is inside the cluster, and its Service.
func serviceOf(ctx context.Context, c *Cluster, cp *coderv1alpha1.CoderControlPlane) (*url.URL, *corev1.Service, error) {
	inside, err := url.Parse(cp.Status.URL)
	if err != nil || inside.Hostname() == "" {
		return nil, nil, fmt.Errorf("control plane %s/%s has no URL yet: see kubectl coder status -n %s", cp.Namespace, cp.Name, cp.Namespace)
	}
	name, _, _ := strings.Cut(inside.Hostname(), ".")
	service := &corev1.Service{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: cp.Namespace, Name: name}, service); err != nil {
		return nil, nil, fmt.Errorf("the Service of control plane %s/%s: %w", cp.Namespace, cp.Name, err)
	}
	return inside, service, nil
}

// endpointOf returns a ready pod behind the Service of status.url, and the URL scheme of its port.
func endpointOf(ctx context.Context, c *Cluster, cp *coderv1alpha1.CoderControlPlane) (to Endpoint, scheme string, err error) {
	inside, service, err := serviceOf(ctx, c, cp)
	if err != nil {
		return to, "", err
	}
	number := cmp.Or(inside.Port(), map[string]string{"https": "443"}[inside.Scheme], "80")
	i := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return strconv.Itoa(int(p.Port)) == number })
	if i < 0 {
		return to, "", fmt.Errorf("service %s/%s has no port %s, which status.url of control plane %s names", service.Namespace, service.Name, number, cp.Name)
	}
	var pods corev1.PodList
	selector := labels.SelectorFromSet(service.Spec.Selector)
	if err := c.List(ctx, &pods, &client.ListOptions{Namespace: service.Namespace, LabelSelector: selector}); err != nil {
		return to, "", err
	}
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	ready := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool { return podproblem.IsReady(&p) && p.DeletionTimestamp == nil })
	if ready < 0 {
		return to, "", fmt.Errorf("none of the %d pods behind Service %s/%s is ready: see kubectl coder status -n %s",
			len(pods.Items), service.Namespace, service.Name, service.Namespace)
	}
	pod := &pods.Items[ready]
	port := service.Spec.Ports[i]
	to = Endpoint{Namespace: pod.Namespace, Pod: pod.Name, Port: int(cmp.Or(port.TargetPort.IntVal, port.Port))}
	if port.TargetPort.Type == intstr.Int {
		return to, inside.Scheme, nil
	}
	for _, container := range pod.Spec.Containers {
		for _, p := range container.Ports {
			if p.Name == port.TargetPort.StrVal {
				to.Port = int(p.ContainerPort)
				return to, inside.Scheme, nil
			}
		}
	}
	return to, "", fmt.Errorf("pod %s/%s has no port %q, which its Service forwards to", pod.Namespace, pod.Name, port.TargetPort.StrVal)
}

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
		return "", fmt.Errorf("workspace %s has no apps: apps exist only while it runs, and its template must define them (coder_app)", ws.Name)
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

// Endpoint is a port of a pod.
type Endpoint struct {
	Namespace, Pod string
	Port           int
}

// Forwarder forwards a local port to a port of a pod until ctx is done. Local 0 selects a free
// port. It calls ready once with the local port.
type Forwarder func(ctx context.Context, c *Cluster, to Endpoint, local int, ready func(local int)) error

// forward connects through kube-apiserver, as kubectl does.
func forward(ctx context.Context, c *Cluster, to Endpoint, local int, ready func(local int)) error {
	pod := c.Kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(to.Namespace).Name(to.Pod).SubResource("portforward").URL()
	err := remoteexec.ForwardPod(ctx, c.Config, pod, local, to.Port, ready)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, portforward.ErrLostConnectionToPod):
		return fmt.Errorf("the connection to pod %s/%s is lost, for example because it was replaced: run this command again", to.Namespace, to.Pod)
	}
	return fmt.Errorf("forwarding port %d of pod %s/%s: %w", to.Port, to.Namespace, to.Pod, err)
}
