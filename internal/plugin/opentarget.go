package plugin

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

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
	pod, err := readyPod(ctx, c, service)
	if err != nil {
		return to, "", err
	}
	port, err := containerPort(pod, service.Spec.Ports[i])
	return Endpoint{Namespace: pod.Namespace, Pod: pod.Name, Port: port}, inside.Scheme, err
}

func readyPod(ctx context.Context, c *Cluster, service *corev1.Service) (*corev1.Pod, error) {
	pods, err := c.pods(ctx, service.Namespace, labels.SelectorFromSet(service.Spec.Selector))
	if err != nil {
		return nil, err
	}
	for i := range pods {
		if podproblem.IsReady(&pods[i]) && pods[i].DeletionTimestamp == nil {
			return &pods[i], nil
		}
	}
	return nil, fmt.Errorf("none of the %d pods behind Service %s/%s is ready: see kubectl coder status -n %s",
		len(pods), service.Namespace, service.Name, service.Namespace)
}

// containerPort returns the port number in the pod for a port of a Service.
func containerPort(pod *corev1.Pod, port corev1.ServicePort) (int, error) {
	if port.TargetPort.Type == intstr.Int {
		if port.TargetPort.IntVal == 0 {
			return int(port.Port), nil
		}
		return int(port.TargetPort.IntVal), nil
	}
	for _, container := range pod.Spec.Containers {
		for _, p := range container.Ports {
			if p.Name == port.TargetPort.StrVal {
				return int(p.ContainerPort), nil
			}
		}
	}
	return 0, fmt.Errorf("pod %s/%s has no port %q, which its Service forwards to", pod.Namespace, pod.Name, port.TargetPort.StrVal)
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

// showApp opens the URL of an app. A URL that is not http or https could start any program, so it
// is only printed.
func (d *openRun) showApp(ctx context.Context, address string) error {
	if isWeb(address) {
		return d.show(ctx, address)
	}
	fmt.Fprintln(d.Out, cli.Clean(address))
	fmt.Fprintln(d.ErrOut, "This is not an HTTP or HTTPS URL, so it was not opened.")
	return nil
}

// completeOpen completes workspaces and control planes, and then the apps of a workspace.
func completeOpen(s *Session) cobra.CompletionFunc {
	names := s.CompleteName("CoderWorkspace", "CoderControlPlane")
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
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return apps(cmd, args, begun)
		}
		return names(cmd, args, begun)
	}
}
