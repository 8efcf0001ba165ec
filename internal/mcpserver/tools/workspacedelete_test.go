package tools

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

func deletionFailed(obj client.Object) {
	ws := obj.(*aggregationv1alpha1.CoderWorkspace)
	setCondition(&ws.Status.Conditions, aggregationv1alpha1.ConditionDeletionFailed, metav1.ConditionTrue, "DeletionFailed", "the disk is in use; the deletion is retried")
}

func TestDeleteWorkspace(t *testing.T) {
	in := deleteWorkspaceInput{Namespace: "coder", Name: devName, Confirm: devName}
	waiting := in
	waiting.Wait, waiting.TimeoutSeconds = true, 10
	for name, tt := range map[string]struct {
		in       deleteWorkspaceInput
		deleting bool
		after    []func(client.Object)
		want     deleteWorkspaceOutput
		wantErr  string
		wantKept bool
	}{
		"when told to":           {in: in, want: deleteWorkspaceOutput{Updated: true}},
		"not unasked":            {in: deleteWorkspaceInput{Namespace: "coder", Name: devName}, wantErr: "nothing was done yet: ask the user", wantKept: true},
		"not for another":        {in: deleteWorkspaceInput{Namespace: "coder", Name: devName, Confirm: "dev"}, wantErr: `confirm is "dev" and must be "coder.ada.dev"`, wantKept: true},
		"that is being deleted":  {in: deleteWorkspaceInput{Namespace: "coder", Name: devName}, deleting: true, want: deleteWorkspaceOutput{}},
		"and waits for the end":  {in: waiting, after: []func(client.Object){inPhase("Deleting", ""), nil}, want: deleteWorkspaceOutput{Updated: true, Gone: true}},
		"and says why it failed": {in: waiting, after: []func(client.Object){inPhase("Deleting", ""), deletionFailed}, want: deleteWorkspaceOutput{Updated: true, Message: "the deletion failed: the disk is in use; the deletion is retried; get_build_logs shows the whole log"}},
	} {
		t.Run(name, func(t *testing.T) {
			ws := devWorkspace("Running")
			ws.Finalizers = []string{aggregationv1alpha1.FinalizerWorkspace}
			if tt.deleting {
				ws.DeletionTimestamp = &metav1.Time{Time: metav1.Now().Rfc3339Copy().Time}
			}
			api := &steps{t: t, after: tt.after}
			kube := fakeKube(t, api.funcs(), nil, ws)
			out, err := deleteWorkspace(t.Context(), &toolset.Call{Kube: kube}, tt.in)
			if tt.wantErr != "" {
				wantError(t, err, tt.wantErr)
			} else if err != nil || out.Updated != tt.want.Updated || out.Gone != tt.want.Gone || out.Message != tt.want.Message || out.Workspace.Name != devName {
				t.Errorf("the answer is %+v, %v", out, err)
			}
			now := &aggregationv1alpha1.CoderWorkspace{}
			getErr := kube.Get(t.Context(), client.ObjectKeyFromObject(ws), now)
			if kept := getErr == nil && now.DeletionTimestamp == nil; kept != tt.wantKept {
				t.Errorf("it is kept: %v, want %v", kept, tt.wantKept)
			}
			if apierrors.IsNotFound(getErr) != tt.want.Gone {
				t.Errorf("the answer says gone: %v, and reading it says %v", tt.want.Gone, getErr)
			}
		})
	}
}

func TestDeleteWorkspaceTriesOnly(t *testing.T) {
	in := deleteWorkspaceInput{Namespace: "coder", Name: devName, DryRun: true, Wait: true}
	out, err := deleteWorkspace(t.Context(), &toolset.Call{Kube: fakeKube(t, refuseWrites(t), nil, devWorkspace("Running"))}, in)
	if err != nil || out.Updated || out.Gone || out.Message != wouldBeAccepted {
		t.Errorf("the answer is %+v, %v", out, err)
	}
	_, err = deleteWorkspace(t.Context(), &toolset.Call{Kube: fakeKube(t, refuseWrites(t), nil)}, in)
	wantError(t, err, `"coder.ada.dev" not found`)
}

// A workspace of the same name that was created during the confirmation must not be
// deleted.
func TestDeleteWorkspaceDeletesTheOneThatWasAskedAbout(t *testing.T) {
	var asked client.DeleteOptions
	funcs := interceptor.Funcs{Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, opts ...client.DeleteOption) error {
		asked.ApplyOptions(opts)
		return conflict("coderworkspaces")
	}}
	in := deleteWorkspaceInput{Namespace: "coder", Name: devName, Confirm: devName}
	_, err := deleteWorkspace(t.Context(), &toolset.Call{Kube: fakeKube(t, funcs, nil, devWorkspace("Running"))}, in)
	wantError(t, err, "delete coderworkspaces.aggregation.coder.com coder/coder.ada.dev")
	if asked.Preconditions == nil || asked.Preconditions.UID == nil || *asked.Preconditions.UID != "dev" {
		t.Errorf("the preconditions are %+v", asked.Preconditions)
	}
}

// A caller without permission gets an error and is not asked for confirmation.
func TestDeleteWorkspaceAsksNobodyWhatIsForbidden(t *testing.T) {
	kube := fakeKube(t, interceptor.Funcs{Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
		return forbidden("coderworkspaces")
	}}, nil, devWorkspace("Running"))
	_, err := deleteWorkspace(t.Context(), &toolset.Call{Kube: kube}, deleteWorkspaceInput{Namespace: "coder", Name: devName})
	wantError(t, err, "delete coderworkspaces.aggregation.coder.com coder/coder.ada.dev")
}
