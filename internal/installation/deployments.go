package installation

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// part is a component of the process. app is its name in the flag --app, and roles is the file of
// its generated roles.
type part struct {
	app, name, roles string
	wanted           bool
}

func parts(want Expectation) []part {
	return []part{
		{"controller", "the controllers", controllerRoles, want.Controllers},
		{"aggregated-apiserver", "the aggregated API", apiserverRoles, want.AggregatedAPI},
		{"mcp-http", "the MCP server", mcpRoles, want.MCP},
	}
}

// deployments checks the Deployments of the operator. If the caller is a user, it checks
// whether they exist. In all cases it checks whether two of them work in the same
// namespaces.
func (c *checker) deployments(ctx context.Context) ([]Problem, error) {
	list := &appsv1.DeploymentList{}
	if err := c.kube.List(ctx, list, client.MatchingLabels{LabelName: Name}); err != nil {
		return nil, fmt.Errorf("listing the Deployments of the operator: %w", err)
	}
	var problems []Problem
	var here []appsv1.Deployment
	for _, d := range list.Items {
		if d.Namespace == c.want.Namespace {
			here = append(here, d)
		}
	}
	reported := map[string]bool{}
	for _, p := range parts(c.want) {
		found := slices.IndexFunc(here, func(d appsv1.Deployment) bool { return runs(d, p.app) })
		switch {
		case c.want.OwnRights, !p.wanted:
		case found < 0:
			problems = append(problems, Problem{
				Object: "Namespace " + c.want.Namespace, What: "has no Deployment that runs " + p.name,
				Do: "install coder-k8s, or say in which namespace it is",
			})
		case here[found].Status.AvailableReplicas == 0 && !reported[here[found].Name]:
			reported[here[found].Name] = true
			problems = append(problems, unavailableDeployment(here[found]))
		}
	}
	for _, d := range list.Items {
		switch {
		// Deployments in the same namespace share a Lease.
		case !c.want.Controllers, !runs(d, "controller"), ptr.Deref(d.Spec.Replicas, 1) == 0, d.Namespace == c.want.Namespace:
		case overlap(c.want.WatchNamespaces, watchedBy(d)):
			problems = append(problems, Problem{
				Object: fmt.Sprintf("Deployment %s/%s", d.Namespace, d.Name),
				What:   fmt.Sprintf("runs the controllers for the same namespaces as namespace %s does, and both write the same objects", c.want.Namespace),
				Do:     "remove one of the two, or give each its own --watch-namespaces",
			})
		}
	}
	return problems, nil
}

func unavailableDeployment(d appsv1.Deployment) Problem {
	name := d.Namespace + "/" + d.Name
	p := Problem{
		Object: "Deployment " + name,
		What:   fmt.Sprintf("has none of %d pods available", ptr.Deref(d.Spec.Replicas, 1)),
		Do:     fmt.Sprintf("look at its pods: kubectl -n %s describe deployment %s", d.Namespace, d.Name),
	}
	for _, condition := range d.Status.Conditions {
		if condition.Type == appsv1.DeploymentAvailable && condition.Status == corev1.ConditionFalse {
			p.Since = &condition.LastTransitionTime.Time
		}
	}
	if ptr.Deref(d.Spec.Replicas, 1) == 0 {
		p.What, p.Do = "is scaled to 0", fmt.Sprintf("kubectl -n %s scale deployment %s --replicas=1", d.Namespace, d.Name)
	}
	return p
}

func runs(d appsv1.Deployment, app string) bool {
	apps := values(d, "--app")
	return len(apps) == 0 && len(d.Spec.Template.Spec.Containers) > 0 || slices.Contains(apps, "all") || slices.Contains(apps, app)
}

// watchedBy returns the namespaces that a Deployment of the operator watches, or none if it watches all.
func watchedBy(d appsv1.Deployment) []string {
	var namespaces []string
	for _, value := range values(d, "--watch-namespaces") {
		namespaces = append(namespaces, strings.Split(value, ",")...)
	}
	return namespaces
}

// values returns the values of a flag in the arguments of a Deployment.
func values(d appsv1.Deployment, flag string) []string {
	var found []string
	for _, container := range d.Spec.Template.Spec.Containers {
		args := slices.Concat(container.Command, container.Args)
		for i, arg := range args {
			if value, is := strings.CutPrefix(arg, flag+"="); is {
				found = append(found, value)
			} else if arg == flag && i+1 < len(args) {
				found = append(found, args[i+1])
			}
		}
	}
	return found
}

// overlap reports whether two lists of namespaces have one in common. An empty list means
// all namespaces.
func overlap(a, b []string) bool {
	return len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, func(name string) bool { return slices.Contains(b, name) })
}
