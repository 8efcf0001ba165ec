package apiserver

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// TestMetadataIsKept creates an object with all metadata that a client may set, and reads it back.
func TestMetadataIsKept(t *testing.T) {
	f := newFixture(t)
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "app", UID: "3e8c2b1c-0000-0000-0000-000000000001"}
	wanted := workspaceObject("coder.ada.dev", spec())
	wanted.SetLabels(map[string]string{"app": "x", "aggregation.coder.com/control-plane-name": "another"})
	wanted.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "ä"})
	wanted.SetFinalizers([]string{"example.com/hold"})
	wanted.SetOwnerReferences([]metav1.OwnerReference{owner})
	if _, err := f.ws().Create(t.Context(), wanted, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got := f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool { return condition(ws, "Ready") == "True Running" })
	for what, c := range map[string]struct{ want, got any }{
		"labels": {map[string]string{
			"app": "x", "aggregation.coder.com/control-plane-name": "coder", "aggregation.coder.com/control-plane-namespace": f.namespace,
		}, got.GetLabels()},
		"annotations":      {wanted.GetAnnotations(), got.GetAnnotations()},
		"finalizers":       {[]string{"aggregation.coder.com/workspace", "example.com/hold"}, got.GetFinalizers()},
		"owner references": {wanted.GetOwnerReferences(), got.GetOwnerReferences()},
		"generation":       {int64(1), got.GetGeneration()},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	f.coder.ResetRequests()
	if _, err := f.ws().Patch(t.Context(), "coder.ada.dev", types.MergePatchType,
		[]byte(`{"metadata":{"labels":null,"annotations":null,"finalizers":null,"ownerReferences":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	got = f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool { return len(ws.GetAnnotations()) == 0 })
	if len(got.GetLabels()) != 2 || len(got.GetFinalizers()) != 1 || len(got.GetOwnerReferences()) != 0 || got.GetGeneration() != 1 {
		t.Errorf("after all was taken away: %v", got.Object["metadata"])
	}
	if n := f.coder.Writes(); n != 0 {
		t.Errorf("Coder was told of metadata: %v", f.coder.Requests())
	}
}

func TestWorkspacesOfOthersCostNothing(t *testing.T) {
	f := newFixture(t)
	f.addMany(t, 3)
	if left := f.kept(); len(left) != 0 {
		t.Errorf("%d records for workspaces that this API did nothing with", len(left))
	}
}

func TestMetadataOfATemplateIsKept(t *testing.T) {
	f := newFixture(t)
	if _, err := f.tmpl().Patch(t.Context(), "coder.starter", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"app":"x"},"finalizers":["example.com/hold"]}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := f.tmpl().Delete(t.Context(), "coder.starter", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	held := f.templateIs(t, func(o *unstructured.Unstructured) bool { return o.GetDeletionTimestamp() != nil })
	if held.GetLabels()["app"] != "x" || f.coder.TemplateFields(f.template) == nil {
		t.Errorf("while it is held: %v", held.Object)
	}
	if _, err := f.tmpl().Patch(t.Context(), "coder.starter", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	gone(t, f.tmpl(), "coder.starter")
}

// TestForeignFinalizer checks that a foreign finalizer delays the delete build, as a backup tool
// may need.
func TestForeignFinalizer(t *testing.T) {
	f := newFixture(t)
	id := f.addWorkspace(t, "dev")
	ctx := t.Context()
	hold := func(finalizers string) error {
		_, err := f.ws().Patch(ctx, "coder.ada.dev", types.MergePatchType, []byte(`{"metadata":{"finalizers":`+finalizers+`}}`), metav1.PatchOptions{})
		return err
	}
	if err := hold(`["example.com/backup","example.com/bill"]`); err != nil {
		t.Fatal(err)
	}
	if err := f.ws().Delete(ctx, "coder.ada.dev", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	held := f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool { return ws.GetDeletionTimestamp() != nil })
	if condition(held, "Ready") != "False Deleting" {
		t.Errorf("while it is held: %v", held.Object["status"])
	}
	if err := hold(`["example.com/backup","example.com/bill","example.com/new"]`); !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		t.Errorf("a new finalizer on what is being deleted: %v", err)
	}
	if err := hold(`["example.com/bill"]`); err != nil {
		t.Fatal(err)
	}
	still := f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool { return true })
	if !still.GetDeletionTimestamp().Time.Equal(held.GetDeletionTimestamp().Time) {
		t.Errorf("the deletion began at %s, and now at %s", held.GetDeletionTimestamp(), still.GetDeletionTimestamp())
	}
	if diff := cmp.Diff([]string{"start"}, f.coder.Transitions(id)); diff != "" {
		t.Fatalf("it was not held (-want +got):\n%s", diff)
	}
	if err := hold(`null`); err != nil {
		t.Fatal(err)
	}
	gone(t, f.ws(), "coder.ada.dev")
	if diff := cmp.Diff([]string{"start", "delete"}, f.coder.Transitions(id)); diff != "" {
		t.Errorf("builds (-want +got):\n%s", diff)
	}
}

// TestOwnFinalizer checks that a client cannot remove an object that exists in Coder by removing
// the operator's finalizer.
func TestOwnFinalizer(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	f.addWorkspace(t, "dev")
	if err := f.ws().Delete(t.Context(), "coder.ada.dev", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ws().Patch(t.Context(), "coder.ada.dev", types.JSONPatchType, []byte(`[{"op":"remove","path":"/metadata/finalizers"}]`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := f.ws().Get(t.Context(), "coder.ada.dev", metav1.GetOptions{})
	if err != nil || len(got.GetFinalizers()) != 1 || got.GetDeletionTimestamp() == nil {
		t.Errorf("%v: %v", err, got)
	}
	f.coder.FinishBuilds()
	gone(t, f.ws(), "coder.ada.dev")
}

func TestGenerateName(t *testing.T) {
	f := newFixture(t)
	wanted := workspaceObject("", spec())
	wanted.SetName("")
	wanted.SetGenerateName("coder.ada.ci-")
	seen := map[string]bool{}
	for range 3 {
		created, err := f.ws().Create(t.Context(), wanted, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(created.GetName(), "coder.ada.ci-") || seen[created.GetName()] {
			t.Errorf("made %s", created.GetName())
		}
		seen[created.GetName()] = true
		if uuid.Validate(string(created.GetUID())) != nil {
			t.Errorf("UID %q", created.GetUID())
		}
	}
	wanted.SetGenerateName("ci-")
	if _, err := f.ws().Create(t.Context(), wanted, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a name that cannot be one: %v, want 422", err)
	}
}

// TestDeletionPreconditions checks the preconditions of a delete request.
func TestDeletionPreconditions(t *testing.T) {
	f := newFixture(t)
	id := f.addWorkspace(t, "dev")
	old, other := "1", types.UID(uuid.NewString())
	for name, p := range map[string]*metav1.Preconditions{"UID": {UID: &other}, "resourceVersion": {ResourceVersion: &old}} {
		if err := f.ws().Delete(t.Context(), "coder.ada.dev", metav1.DeleteOptions{Preconditions: p}); !apierrors.IsConflict(err) {
			t.Errorf("another %s: %v, want 409", name, err)
		}
	}
	if diff := cmp.Diff([]string{"start"}, f.coder.Transitions(id)); diff != "" {
		t.Errorf("builds (-want +got):\n%s", diff)
	}
	ws, err := f.ws().Get(t.Context(), "coder.ada.dev", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	right := ws.GetUID()
	if err := f.ws().Delete(t.Context(), "coder.ada.dev", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &right}}); err != nil {
		t.Error(err)
	}
	gone(t, f.ws(), "coder.ada.dev")
}
