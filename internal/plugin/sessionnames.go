package plugin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// Target is an object on the command line, as KIND/NAME or NAME.
type Target struct {
	// Kind is the kind of the object. It is empty if the text has none.
	Kind, Name string
}

// aliases maps the words that users may type for a kind to the kind.
var aliases = map[string]string{
	"workspace": "CoderWorkspace", "workspaces": "CoderWorkspace", "ws": "CoderWorkspace",
	"cws": "CoderWorkspace", "coderworkspace": "CoderWorkspace", "coderworkspaces": "CoderWorkspace",
	"template": "CoderTemplate", "templates": "CoderTemplate",
	"ctpl": "CoderTemplate", "codertemplate": "CoderTemplate", "codertemplates": "CoderTemplate",
	"controlplane": "CoderControlPlane", "controlplanes": "CoderControlPlane",
	"ccp": "CoderControlPlane", "codercontrolplane": "CoderControlPlane", "codercontrolplanes": "CoderControlPlane",
}

// nameParts is the number of parts of a complete name, without the prefix of a control plane. The name
// of a control plane has no parts.
var nameParts = map[string]int{"CoderTemplate": 2, "CoderWorkspace": 3}

// ParseTarget parses KIND/NAME. The kind may include its group, as in the output of -o name.
// allowed are the kinds that the command accepts. The first one is the default.
func ParseTarget(text string, allowed ...string) (Target, error) {
	kind, name, found := strings.Cut(text, "/")
	if !found {
		kind, name = "", text
	}
	if name == "" || strings.Contains(name, "/") {
		return Target{}, cli.Usage("%q is not the name of an object: give NAME or KIND/NAME", text)
	}
	if kind == "" {
		return Target{Kind: allowed[0], Name: name}, nil
	}
	resource, _, _ := strings.Cut(strings.ToLower(kind), ".")
	known := aliases[resource]
	if !slices.Contains(allowed, known) {
		return Target{}, cli.Usage("%q: this command does not support %q, only %s", text, kind, strings.Join(allowed, ", "))
	}
	return Target{Kind: known, Name: name}, nil
}

// optionalTarget is ParseTarget for the first argument. Without one, it returns a control plane
// without a name.
func optionalTarget(args []string, allowed ...string) (Target, error) {
	if len(args) == 0 {
		return Target{Kind: "CoderControlPlane"}, nil
	}
	return ParseTarget(args[0], allowed...)
}

// ControlPlane returns the cluster, and the control plane that an optional argument names. Without it, that is the only one of the namespace.
func (s *Session) ControlPlane(ctx context.Context, args []string) (*Cluster, *coderv1alpha1.CoderControlPlane, error) {
	target, err := optionalTarget(args, "CoderControlPlane")
	if err != nil {
		return nil, nil, err
	}
	cluster, err := s.Cluster()
	if err != nil {
		return nil, nil, err
	}
	cp, err := cluster.ControlPlane(ctx, target.Name)
	return cluster, cp, err
}

// OwnWorkspace returns the cluster, and the workspace that an argument names.
func (s *Session) OwnWorkspace(ctx context.Context, text string) (*Cluster, *aggregationv1alpha1.CoderWorkspace, error) {
	return inCluster(ctx, s, text, "CoderWorkspace", (*Cluster).OwnWorkspace)
}

// Template returns the cluster, and the template that an argument names.
func (s *Session) Template(ctx context.Context, text string) (*Cluster, *aggregationv1alpha1.CoderTemplate, error) {
	return inCluster(ctx, s, text, "CoderTemplate", (*Cluster).Template)
}

func inCluster[T any](
	ctx context.Context, s *Session, text, kind string, find func(c *Cluster, ctx context.Context, name string) (*T, error),
) (*Cluster, *T, error) {
	target, err := ParseTarget(text, kind)
	if err != nil {
		return nil, nil, err
	}
	cluster, err := s.Cluster()
	if err != nil {
		return nil, nil, err
	}
	found, err := find(cluster, ctx, target.Name)
	return cluster, found, err
}

// Workspace returns a workspace of the namespace. A name that is not complete may be a unique end of
// the object's name, for example dev or ada.dev for coder.ada.dev.
func (c *Cluster) Workspace(ctx context.Context, name string) (*aggregationv1alpha1.CoderWorkspace, error) {
	list := &aggregationv1alpha1.CoderWorkspaceList{}
	found, err := named(ctx, c, "CoderWorkspace", name, list, &list.Items)
	return found, explainAbsence(err, "coderworkspaces")
}

// Template is like Workspace for templates: hello for coder.hello.
func (c *Cluster) Template(ctx context.Context, name string) (*aggregationv1alpha1.CoderTemplate, error) {
	list := &aggregationv1alpha1.CoderTemplateList{}
	found, err := named(ctx, c, "CoderTemplate", name, list, &list.Items)
	return found, explainAbsence(err, "codertemplates")
}

// ControlPlane returns a control plane of the namespace. If the name is empty, it returns the only
// one.
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

// named returns the object of exactly that name. If there is none and the name is not complete, it
// returns the only object whose name ends with a dot and that name. items are those of list.
func named[T any, P object[T]](ctx context.Context, c *Cluster, kind, name string, list client.ObjectList, items *[]T) (P, error) {
	exact := P(new(T))
	err := c.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, exact)
	// A name with all its parts is not the end of another name.
	if err == nil || !apierrors.IsNotFound(err) || strings.Count(name, ".")+1 >= nameParts[kind] {
		return exact, err
	}
	if failed := c.List(ctx, list, client.InNamespace(c.Namespace)); apierrors.IsForbidden(failed) {
		// A user who may get an object but not list objects has to type the whole name.
		return nil, err
	} else if failed != nil {
		// Without the other names, a missing exact name proves nothing.
		return nil, failed
	}
	var candidates []string
	for i := range *items {
		if candidate := P(&(*items)[i]); strings.HasSuffix(candidate.GetName(), "."+name) {
			candidates = append(candidates, candidate.GetName())
			exact = candidate
		}
	}
	switch len(candidates) {
	case 0:
		names := firstNames(len(*items), mostNamedInQuestion, func(i int) string { return P(&(*items)[i]).GetName() })
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound,
			Message: fmt.Sprintf("%q not found in namespace %s, which has %s", name, c.Namespace, cmp.Or(names, "none")),
		}}
	case 1:
		return exact, nil
	}
	return nil, cli.Usage("%q could be any of %s: give the whole name", name, strings.Join(candidates, ", "))
}

// firstNames lists the first names of all, and how many more there are.
func firstNames(all, most int, name func(i int) string) string {
	var names []string
	for i := range min(all, most) {
		names = append(names, name(i))
	}
	if all > most {
		names = append(names, fmt.Sprintf("and %d more", all-most))
	}
	return strings.Join(names, ", ")
}

// explainAbsence adds a hint to the error for an object that does not exist.
func explainAbsence(err error, resource string) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	return fmt.Errorf("%w; kubectl get %s -A lists all", err, resource)
}

// OwnWorkspace is Workspace for the commands that enter a workspace, open it or create a token for it.
// For them a name without an owner, such as dev, is one of the caller's own workspaces, as in Coder's
// own command line. Without that, the name would select the workspace of another user after the
// caller's workspace was deleted, and the session would send files and passwords there. Another user
// can also not make the name ambiguous.
func (c *Cluster) OwnWorkspace(ctx context.Context, name string) (*aggregationv1alpha1.CoderWorkspace, error) {
	if strings.Contains(name, ".") {
		return c.Workspace(ctx, name)
	}
	list := &aggregationv1alpha1.CoderWorkspaceList{}
	if err := c.List(ctx, list, client.InNamespace(c.Namespace)); err != nil {
		return nil, fmt.Errorf("finding workspace %q: %w; with its whole name the list is not needed", name, err)
	}
	var others, own []string
	var found *aggregationv1alpha1.CoderWorkspace
	// selves contains who the caller is in the Coder of each control plane.
	var selves map[string]aggregationv1alpha1.CoderSelf
	problem := ""
	for i := range list.Items {
		ws := &list.Items[i]
		if !strings.HasSuffix(ws.Name, "."+name) {
			continue
		}
		if selves == nil {
			review := &aggregationv1alpha1.CoderSelfReview{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace}}
			if err := c.Create(ctx, review); err != nil {
				return nil, fmt.Errorf("finding your own workspaces, to which a name without an owner refers: %w; with its owner, the name of a workspace needs no such request", err)
			}
			selves = map[string]aggregationv1alpha1.CoderSelf{}
			for _, self := range review.Status.ControlPlanes {
				selves[self.ControlPlane] = self
			}
		}
		self := selves[ws.Labels[aggregationv1alpha1.LabelControlPlaneName]]
		problem = cmp.Or(problem, self.Problem)
		if self.CoderUser == "" || !strings.EqualFold(self.CoderUser, ws.Status.OwnerName) {
			others = append(others, ws.Name)
			continue
		}
		own = append(own, ws.Name)
		found = ws
	}
	switch len(own) {
	case 0:
	case 1:
		return found, nil
	default:
		return nil, cli.Usage("%q could be any of %s: give the whole name", name, strings.Join(own, ", "))
	}
	message := fmt.Sprintf("%q not found among your own workspaces in namespace %s", name, c.Namespace)
	switch listed := firstNames(len(others), mostNamedInQuestion, func(i int) string { return others[i] }); {
	case problem != "":
		message += fmt.Sprintf(", because your Coder user is not known: %s; there is %s: give the name with its owner", problem, listed)
	case len(others) > 0:
		message += fmt.Sprintf(", but others have %s: give the name with its owner; kubectl coder whoami shows as which user you own workspaces", listed)
	default:
		message += "; kubectl get coderworkspaces -A lists all"
	}
	// NotFound, so that a host of config-ssh may still name an agent.
	return nil, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Message: message}}
}
