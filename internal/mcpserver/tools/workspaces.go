package tools

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

var listWorkspacesTool = definition{
	name:  "list_workspaces",
	title: "List Coder workspaces",
	description: "Lists the workspaces of all users in the Coder deployments of this cluster. Names have the form " +
		"organization.user.workspace, with control-plane. in front in a namespace with several control planes.",
	readOnly:   true,
	idempotent: true,
}

var setWorkspaceRunningTool = definition{
	name:  "set_workspace_running",
	title: "Start or stop a Coder workspace",
	description: "Starts or stops one workspace and returns at once: the build goes on in Coder, and list_workspaces shows " +
		"its phase. Stopping ends what runs in the workspace. If it is already as wanted, nothing happens and updated is false.",
	destructive: true,
	idempotent:  true,
}

type listWorkspacesInput struct {
	Namespace string `json:"namespace,omitempty" jsonschema:"namespace of the control plane; leave it out for all namespaces, which needs the right to list cluster-wide"`
	Limit     int    `json:"limit,omitempty" jsonschema:"how many to return at most"`
	Cursor    string `json:"cursor,omitempty" jsonschema:"nextCursor of the answer before, to go on from there"`
}

type workspace struct {
	Name         string `json:"name" jsonschema:"organization.user.workspace, as the other tools take it"`
	Namespace    string `json:"namespace" jsonschema:"namespace of its control plane"`
	Running      bool   `json:"running" jsonschema:"whether it runs or shall run"`
	AutoShutdown string `json:"autoShutdown,omitempty" jsonschema:"when it stops by itself, RFC 3339"`
	Phase        string `json:"phase,omitempty" jsonschema:"state of the newest build: Pending, Starting, Running, Stopping, Stopped, Failed, Canceling, Canceled, Deleting or Deleted"`
	Owner        string `json:"owner,omitempty" jsonschema:"user that owns it"`
	Template     string `json:"template,omitempty" jsonschema:"its template"`
	Outdated     bool   `json:"outdated,omitempty" jsonschema:"whether the template has a newer active version"`
	LastUsedAt   string `json:"lastUsedAt,omitempty" jsonschema:"when it was last used, RFC 3339"`
	BuildError   string `json:"buildError,omitempty" jsonschema:"why the newest build failed"`
}

type listWorkspacesOutput struct {
	Items      []workspace `json:"items" jsonschema:"the workspaces of this page"`
	Truncated  bool        `json:"truncated" jsonschema:"whether there are more; get them with nextCursor"`
	NextCursor string      `json:"nextCursor,omitempty" jsonschema:"cursor for the next call"`
}

type setWorkspaceRunningInput struct {
	Namespace string `json:"namespace" jsonschema:"namespace of the workspace, as list_workspaces shows it"`
	Name      string `json:"name" jsonschema:"name of the workspace, as list_workspaces shows it"`
	Running   bool   `json:"running" jsonschema:"true to start it, false to stop it"`
}

type setWorkspaceRunningOutput struct {
	Workspace workspace `json:"workspace" jsonschema:"the workspace after the call"`
	Updated   bool      `json:"updated" jsonschema:"whether this call started or stopped it; false if it was already as wanted"`
}

type workspaces struct{ client client.Client }

func (w workspaces) list(ctx context.Context, in listWorkspacesInput) (listWorkspacesOutput, error) {
	p, err := newPage(in.Limit, in.Cursor)
	if err != nil {
		return listWorkspacesOutput{}, err
	}
	var list aggregationv1alpha1.CoderWorkspaceList
	if err := w.client.List(ctx, &list, p.options(in.Namespace)); err != nil {
		return listWorkspacesOutput{}, &callError{verb: "list", resource: workspaceResource, namespace: in.Namespace, err: err}
	}
	shown, cursor := cut(p, list.Items, list.Continue)
	out := listWorkspacesOutput{Items: make([]workspace, 0, len(shown)), NextCursor: cursor, Truncated: cursor != ""}
	for i := range shown {
		out.Items = append(out.Items, describeWorkspace(&shown[i]))
	}
	return out, nil
}

// setRunning reads, compares and writes the workspace as the caller. When somebody
// else writes in between, it looks again, because then the workspace may
// already be as wanted.
func (w workspaces) setRunning(ctx context.Context, in setWorkspaceRunningInput) (setWorkspaceRunningOutput, error) {
	if err := requireObject(in.Namespace, in.Name); err != nil {
		return setWorkspaceRunningOutput{}, err
	}
	var ws aggregationv1alpha1.CoderWorkspace
	verb, updated := "get", false
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		verb = "get"
		if err := w.client.Get(ctx, client.ObjectKey{Namespace: in.Namespace, Name: in.Name}, &ws); err != nil {
			return err
		}
		if ws.Spec.Running != nil && *ws.Spec.Running == in.Running {
			return nil
		}
		verb = "update"
		ws.Spec.Running = ptr.To(in.Running)
		if err := w.client.Update(ctx, &ws); err != nil {
			return err
		}
		updated = true
		return nil
	})
	if err != nil {
		return setWorkspaceRunningOutput{}, &callError{verb: verb, resource: workspaceResource, namespace: in.Namespace, name: in.Name, err: err}
	}
	return setWorkspaceRunningOutput{Workspace: describeWorkspace(&ws), Updated: updated}, nil
}

func describeWorkspace(ws *aggregationv1alpha1.CoderWorkspace) workspace {
	return workspace{
		Name:         ws.Name,
		Namespace:    ws.Namespace,
		Running:      ptr.Deref(ws.Spec.Running, false),
		AutoShutdown: timestamp(ws.Status.AutoShutdown),
		Phase:        ws.Status.Phase,
		Owner:        ws.Status.OwnerName,
		Template:     ws.Status.TemplateName,
		Outdated:     ws.Status.Outdated,
		LastUsedAt:   timestamp(ws.Status.LastUsedAt),
		BuildError:   ws.Status.LatestBuildError,
	}
}

func timestamp(t *metav1.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
