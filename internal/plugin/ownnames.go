package plugin

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
)

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
	var selves map[string]aggregationv1alpha1.CoderSelf
	problem := ""
	for i := range list.Items {
		ws := &list.Items[i]
		if !strings.HasSuffix(ws.Name, "."+name) {
			continue
		}
		if selves == nil {
			var err error
			if selves, err = c.selves(ctx); err != nil {
				return nil, err
			}
		}
		problem = cmp.Or(problem, selfOf(selves, ws).Problem)
		if !isOwn(selves, ws) {
			others = append(others, ws.Name)
			continue
		}
		own = append(own, ws.Name)
		found = ws
	}
	switch len(own) {
	case 0:
		return nil, noOwnWorkspace(c.Namespace, name, problem, others)
	case 1:
		return found, nil
	}
	return nil, cli.Usage("%q could be any of %s: give the whole name", name, strings.Join(own, ", "))
}

// selfOf returns who the caller is in the Coder of a workspace.
func selfOf(selves map[string]aggregationv1alpha1.CoderSelf, ws *aggregationv1alpha1.CoderWorkspace) aggregationv1alpha1.CoderSelf {
	return selves[ws.Labels[aggregationv1alpha1.LabelControlPlaneName]]
}

// isOwn reports whether a workspace belongs to the caller.
func isOwn(selves map[string]aggregationv1alpha1.CoderSelf, ws *aggregationv1alpha1.CoderWorkspace) bool {
	user := selfOf(selves, ws).CoderUser
	return user != "" && strings.EqualFold(user, ws.Status.OwnerName)
}

// noOwnWorkspace returns the error for a name without an owner that none of the caller's workspaces
// has. others are all workspaces of this name. It is NotFound, so that a host of config-ssh may still
// name an agent.
func noOwnWorkspace(namespace, name, problem string, others []string) error {
	message := fmt.Sprintf("%q not found among your own workspaces in namespace %s", name, namespace)
	switch listed := firstNames(len(others), mostNamedInQuestion, func(i int) string { return others[i] }); {
	case problem != "":
		message += fmt.Sprintf(", because your Coder user is not known: %s; there is %s: give the name with its owner", problem, listed)
	case len(others) > 0:
		message += fmt.Sprintf(", but others have %s: give the name with its owner; kubectl coder whoami shows as which user you own workspaces", listed)
	default:
		message += "; kubectl get coderworkspaces -A lists all"
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Message: message}}
}

// selves returns who the caller is in the Coder of each control plane.
func (c *Cluster) selves(ctx context.Context) (map[string]aggregationv1alpha1.CoderSelf, error) {
	review := &aggregationv1alpha1.CoderSelfReview{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace}}
	if err := c.Create(ctx, review); err != nil {
		return nil, fmt.Errorf("finding your own workspaces, to which a name without an owner refers: %w; with its owner, the name of a workspace needs no such request", err)
	}
	selves := map[string]aggregationv1alpha1.CoderSelf{}
	for _, self := range review.Status.ControlPlanes {
		selves[self.ControlPlane] = self
	}
	return selves, nil
}
