package apiserver

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// TestRenamedInCoder renames a workspace in Coder. Its object keeps its name, because owners and
// dependents refer to it. A new workspace with the old name in Coder gets another object name.
func TestRenamedInCoder(t *testing.T) {
	f := newFixture(t)
	id := f.addWorkspace(t, "dev")
	events := watching(t, f.ws(), metav1.ListOptions{})
	next(t, events, nil)
	f.coder.RenameWorkspace(id, "prod")
	f.hint(id)
	polltest.Eventually(t, "the error for the new name points to the object", func() error {
		_, err := f.ws().Get(t.Context(), "coder.ada.prod", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), `"coder.ada.dev"`) {
			return fmt.Errorf("it is %w", err)
		}
		return nil
	})
	dev := f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool { return at(ws, "status", "workspaceName") == "prod" })
	if idIn(dev) != id.String() {
		t.Errorf("the object is another one: %v", dev.Object)
	}
	spec := map[string]any{"templateName": "starter"}
	_, err := f.ws().Create(t.Context(), workspaceObject("coder.ada.prod", spec), metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) || !strings.Contains(err.Error(), `its object still has the name "coder.ada.dev"`) {
		t.Errorf("creating what has the new name: %v", err)
	}
	if _, err := f.ws().Create(t.Context(), workspaceObject("coder.ada.dev", spec), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("creating what has the first name: %v", err)
	}
	second := f.coder.AddWorkspace("ada", f.template, "dev")
	f.hint(second)
	name := "coder.ada.dev--" + second.String()[:8]
	f.workspace(t, name, func(ws *unstructured.Unstructured) bool { return idIn(ws) == second.String() })
	patch(t, f.ws(), name, `{"spec":{"running":false}}`)
	f.workspace(t, name, func(ws *unstructured.Unstructured) bool { return condition(ws, "Ready") == "True Stopped" })
	if now := f.workspace(t, "coder.ada.dev", func(*unstructured.Unstructured) bool { return true }); now.GetUID() != dev.GetUID() {
		t.Errorf("the name has another object: %v", now.Object)
	}
	for {
		e := next(t, events, nil)
		if strings.HasPrefix(reported(e), "DELETED") {
			t.Errorf("a rename removed an object: %s", reported(e))
		}
		if reported(e) == "ADDED "+name {
			break
		}
	}
}

// TestAnOrganizationIsRenamed checks that the objects keep their names and specs.
func TestAnOrganizationIsRenamed(t *testing.T) {
	f := newFixture(t)
	id := f.addWorkspace(t, "dev")
	f.templateIs(t, func(*unstructured.Unstructured) bool { return true })
	f.coder.RenameOrganization("coder", "acme")
	f.hint(id)
	isNew := func(obj *unstructured.Unstructured) bool { return at(obj, "status", "organizationName") == "acme" }
	for _, objects := range []struct {
		dynamic.ResourceInterface
		object *unstructured.Unstructured
	}{{f.ws(), f.workspace(t, "coder.ada.dev", isNew)}, {f.tmpl(), f.templateIs(t, isNew)}} {
		if now := objects.object; at(now, "spec", "organization") != "coder" || now.GetGeneration() != 1 {
			t.Errorf("the spec has organization %q in generation %d", at(now, "spec", "organization"), now.GetGeneration())
		}
		name := objects.object.GetName()
		patch(t, objects, name, `{"metadata":{"labels":{"a":"b"}},"spec":{"organization":"coder"}}`)
		_, err := objects.Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec":{"organization":"acme"}}`), metav1.PatchOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `so it must be "coder"`) {
			t.Errorf("with the new name of the organization: %v", err)
		}
	}
	_, err := f.ws().Create(t.Context(), workspaceObject("acme.ada.dev", map[string]any{"templateName": "starter"}), metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) || !strings.Contains(err.Error(), `its object still has the name "coder.ada.dev"`) {
		t.Errorf("creating what has the new name: %v", err)
	}
}

func patch(t *testing.T, objects dynamic.ResourceInterface, name, text string) {
	t.Helper()
	if _, err := objects.Patch(t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
}
