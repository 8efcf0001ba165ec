package session

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// Target is an object on the command line, as KIND/NAME or NAME alone.
type Target struct {
	// Kind is the kind of the object, or empty where none was given.
	Kind, Name string
}

// aliases are what people may write for a kind.
var aliases = map[string]string{
	"workspace": "CoderWorkspace", "workspaces": "CoderWorkspace", "ws": "CoderWorkspace",
	"cws": "CoderWorkspace", "coderworkspace": "CoderWorkspace", "coderworkspaces": "CoderWorkspace",
	"template": "CoderTemplate", "templates": "CoderTemplate",
	"ctpl": "CoderTemplate", "codertemplate": "CoderTemplate", "codertemplates": "CoderTemplate",
	"controlplane": "CoderControlPlane", "controlplanes": "CoderControlPlane",
	"ccp": "CoderControlPlane", "codercontrolplane": "CoderControlPlane", "codercontrolplanes": "CoderControlPlane",
}

// ParseTarget reads KIND/NAME. A kind with its group, as -o name prints it, will do.
// Allowed are the kinds that the command knows; the first one is meant where none is
// given.
func ParseTarget(text string, allowed ...string) (Target, error) {
	kind, name, found := strings.Cut(text, "/")
	if !found {
		kind, name = "", text
	}
	if name == "" || strings.Contains(name, "/") {
		return Target{}, cli.Usage("%q names no object: give NAME or KIND/NAME", text)
	}
	if kind == "" {
		return Target{Kind: allowed[0], Name: name}, nil
	}
	resource, _, _ := strings.Cut(strings.ToLower(kind), ".")
	known := aliases[resource]
	if !slices.Contains(allowed, known) {
		return Target{}, cli.Usage("%q: this command knows no %q, only %s", text, kind, strings.Join(allowed, ", "))
	}
	return Target{Kind: known, Name: name}, nil
}

// Workspace reads a workspace of the namespace. The end of its name will do, as dev
// or ada.dev for coder.ada.dev, where only one ends so.
func (c *Cluster) Workspace(ctx context.Context, name string) (*aggregationv1alpha1.CoderWorkspace, error) {
	found, err := named(ctx, c, name, &aggregationv1alpha1.CoderWorkspaceList{}, func(l *aggregationv1alpha1.CoderWorkspaceList) []aggregationv1alpha1.CoderWorkspace {
		return l.Items
	})
	return found, explainAbsence(err, "coderworkspaces")
}

// Template is Workspace for templates: hello for coder.hello.
func (c *Cluster) Template(ctx context.Context, name string) (*aggregationv1alpha1.CoderTemplate, error) {
	found, err := named(ctx, c, name, &aggregationv1alpha1.CoderTemplateList{}, func(l *aggregationv1alpha1.CoderTemplateList) []aggregationv1alpha1.CoderTemplate {
		return l.Items
	})
	return found, explainAbsence(err, "codertemplates")
}

// ControlPlane reads a control plane of the namespace: the only one where no name is
// given.
func (c *Cluster) ControlPlane(ctx context.Context, name string) (*coderv1alpha1.CoderControlPlane, error) {
	if name != "" {
		cp := &coderv1alpha1.CoderControlPlane{}
		err := c.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, cp)
		return cp, explainAbsence(err, "codercontrolplanes")
	}
	var list coderv1alpha1.CoderControlPlaneList
	if err := c.List(ctx, &list, client.InNamespace(c.Namespace)); err != nil {
		return nil, err
	}
	switch len(list.Items) {
	case 0:
		return nil, fmt.Errorf("there is no control plane in namespace %s: choose another one with -n; kubectl get codercontrolplanes -A lists all", c.Namespace)
	case 1:
		return &list.Items[0], nil
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return nil, cli.Usage("namespace %s has several control planes, so name one of them: %s", c.Namespace, strings.Join(names, ", "))
}

// object is a pointer to a T that is an object.
type object[T any] interface {
	*T
	client.Object
}

// named finds the object of exactly that name, or else the only one whose name ends
// with it after a dot.
func named[T any, P object[T], L client.ObjectList](ctx context.Context, c *Cluster, name string, list L, items func(L) []T) (P, error) {
	exact := P(new(T))
	err := c.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, exact)
	if err == nil || !apierrors.IsNotFound(err) {
		return exact, err
	}
	if failed := c.List(ctx, list, client.InNamespace(c.Namespace)); apierrors.IsForbidden(failed) {
		// A user who may read one by name and not list them has to give the whole name.
		return nil, err
	} else if failed != nil {
		// That the name is not found says nothing if the others cannot be read.
		return nil, failed
	}
	var candidates []string
	all := items(list)
	for i := range all {
		if candidate := P(&all[i]); strings.HasSuffix(candidate.GetName(), "."+name) {
			candidates = append(candidates, candidate.GetName())
			exact = candidate
		}
	}
	switch len(candidates) {
	case 0:
		return nil, err
	case 1:
		return exact, nil
	}
	return nil, cli.Usage("%q could be any of %s: give the whole name", name, strings.Join(candidates, ", "))
}

// explainAbsence says what to do where there is no object of that name.
func explainAbsence(err error, resource string) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	return fmt.Errorf("%w; kubectl get %s -A lists those that there are", err, resource)
}
