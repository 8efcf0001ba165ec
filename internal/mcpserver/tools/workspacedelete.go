package tools

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

type deleteWorkspaceInput struct {
	Namespace      string `json:"namespace"`
	Name           string `json:"name"`
	Orphan         bool   `json:"orphan,omitempty" jsonschema:"without its build, so its resources stay"`
	DryRun         bool   `json:"dryRun,omitempty"`
	Wait           bool   `json:"wait,omitempty"`
	TimeoutSeconds int    `json:"timeoutSeconds,omitempty"`
	Confirm        string `json:"confirm,omitempty"`
}

// deleteWorkspaceOutput contains the last observed state of the workspace. Updated is false
// if the workspace was already being deleted.
type deleteWorkspaceOutput struct {
	Workspace workspace `json:"workspace"`
	Updated   bool      `json:"updated"`
	Gone      bool      `json:"gone"`
	// Left are the pods and volume claims that a deletion without a build leaves.
	Left    []string `json:"left,omitempty"`
	Message string   `json:"message,omitempty"`
}

func deleteWorkspace(ctx context.Context, call *toolset.Call, in deleteWorkspaceInput) (deleteWorkspaceOutput, error) {
	ws, err := readWorkspace(ctx, call.Kube, in.Namespace, in.Name)
	if err != nil {
		return deleteWorkspaceOutput{}, err
	}
	out := deleteWorkspaceOutput{Workspace: describeWorkspace(ws)}
	if in.Orphan {
		out.Left = leftovers(ctx, call.Kube, ws)
	}
	if ws.DeletionTimestamp == nil || in.Orphan {
		if err := in.delete(ctx, call, ws, out.Left); err != nil {
			return deleteWorkspaceOutput{}, err
		}
		out.Updated = !in.DryRun
	}
	if in.DryRun {
		out.Message = wouldBeAccepted("whether the build that destroys its resources succeeds")
		if in.Orphan {
			out.Message = wouldBeAccepted("what stays outside of this cluster")
		}
		return out, nil
	}
	if in.Wait {
		before := int32(0)
		if in.Orphan && ws.Status.LatestBuild != nil {
			before = ws.Status.LatestBuild.Number
		}
		out.Gone, err = awaitDeletion(ctx, call, ws, before, in.TimeoutSeconds)
		out.Workspace = describeWorkspace(ws)
	}
	return out, err
}

// delete deletes the workspace. The UID precondition prevents the deletion of a new workspace
// of the same name.
func (in deleteWorkspaceInput) delete(ctx context.Context, call *toolset.Call, ws *aggregationv1alpha1.CoderWorkspace, left []string) error {
	ask := confirmation{
		dryRun: in.DryRun, confirm: in.Confirm,
		question: fmt.Sprintf("Delete workspace %s of %s with all its data? It cannot be brought back.", ws.Name, ws.Status.OwnerName),
	}
	if in.Orphan {
		ask.question = fmt.Sprintf("Delete workspace %s of %s in Coder only? It cannot be brought back. What its template created stays, in this cluster: %s.",
			ws.Name, ws.Status.OwnerName, cmp.Or(strings.Join(left, ", "), "nothing with Coder's label"))
	}
	return confirmed(ctx, call, ws, ask, func(ws *aggregationv1alpha1.CoderWorkspace, only bool) error {
		if in.Orphan {
			body := &aggregationv1alpha1.CoderWorkspaceAction{ObjectMeta: metav1.ObjectMeta{UID: ws.UID}}
			options := &client.SubResourceCreateOptions{CreateOptions: client.CreateOptions{DryRun: dryRun(only)}}
			return callError("create", orphanResource+"."+aggregationGroup, in.Namespace, in.Name, call.Kube.SubResource("orphan").Create(ctx, ws, body, options))
		}
		options := &client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &ws.UID}, DryRun: dryRun(only)}
		return callError("delete", workspaceResource, in.Namespace, in.Name, call.Kube.Delete(ctx, ws, options))
	})
}

// mostLeftovers limits the objects of one kind in an answer.
const mostLeftovers = 20

// leftovers returns the pods and volume claims with Coder's label for a workspace: in all namespaces if the
// caller may list them, or else in that of the workspace.
func leftovers(ctx context.Context, kube *callers.Kube, ws *aggregationv1alpha1.CoderWorkspace) []string {
	var found []string
	for _, kind := range []string{"Pod", "PersistentVolumeClaim"} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind + "List"))
		options := []client.ListOption{client.MatchingLabels{aggregationv1alpha1.LabelWorkspaceID: ws.Status.ID}, client.Limit(mostLeftovers)}
		err := kube.List(ctx, list, options...)
		if apierrors.IsForbidden(err) {
			err = kube.List(ctx, list, append(options, client.InNamespace(ws.Namespace))...)
		}
		if err != nil {
			found = append(found, kind+"s that cannot be listed ("+excerpt(err.Error())+")")
		}
		for _, item := range list.Items[:min(len(list.Items), mostLeftovers)] {
			found = append(found, fmt.Sprintf("%s %s/%s", kind, item.Namespace, item.Name))
		}
	}
	return found
}

// awaitDeletion waits until the workspace no longer exists or its deletion has failed, in a build after
// that with the number before.
func awaitDeletion(
	ctx context.Context, call *toolset.Call, ws *aggregationv1alpha1.CoderWorkspace, before int32, timeoutSeconds int,
) (gone bool, err error) {
	failure := func() string {
		failed := meta.FindStatusCondition(ws.Status.Conditions, aggregationv1alpha1.ConditionDeletionFailed)
		stalled := stalledMessage(ws.Status.Conditions)
		b := ptr.Deref(ws.Status.LatestBuild, aggregationv1alpha1.WorkspaceBuild{})
		switch {
		case b.Number <= before && before > 0:
			return ""
		case failed != nil:
			return excerpt(failed.Message)
		case b.UnmatchedTags != "":
			return stalled
		}
		return ""
	}
	gone, err = call.Until(ctx, ws, time.Duration(timeoutSeconds)*time.Second, func() (bool, string) {
		return failure() != "", ws.Status.Phase + ": " + progressMessage(ws.Status.Conditions)
	})
	if err == nil && !gone {
		err = toolset.Failed(fmt.Sprintf("the deletion failed: %s; get_build_logs shows the whole log", failure()))
	}
	return gone, err
}
