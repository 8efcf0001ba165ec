package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	recordsv1alpha1 "github.com/coder-k8s/coder-k8s/api/records/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records/recordstest"
)

// earlierRecord writes the record of an object as an earlier version has stored it. In that version, the UID of an object was
// its id in Coder.
func earlierRecord(t *testing.T, cluster *recordstest.Cluster, f *fixture, kind, name, id, spec string) {
	t.Helper()
	object := fmt.Sprintf(`{"kind":%q,"apiVersion":"aggregation.coder.com/v1alpha1","metadata":{"name":%q,"namespace":%q,"uid":%q,
		"generation":3,"creationTimestamp":"2026-11-01T08:00:00Z","labels":{"app":"x",
		"aggregation.coder.com/control-plane-name":"coder","aggregation.coder.com/control-plane-namespace":%q},
		"finalizers":["example.com/hold"],"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"1"}],
		"managedFields":[{"manager":"flux","operation":"Apply","apiVersion":"aggregation.coder.com/v1alpha1","fieldsType":"FieldsV1",
		"fieldsV1":{"f:metadata":{"f:labels":{"f:app":{}}}}}]},"spec":%s,"status":{"id":%q}}`, kind, name, f.namespace, id, f.namespace, spec, id)
	var stored unstructured.Unstructured
	if err := json.Unmarshal([]byte(object), &stored); err != nil {
		t.Fatal(err)
	}
	kept, err := json.Marshal(map[string]any{
		"labels": map[string]string{"app": "x"}, "finalizers": stored.GetFinalizers(), "ownerReferences": stored.GetOwnerReferences(),
		"managedFields": stored.GetManagedFields(), "generation": 3,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.Create(context.Background(), &records.Record{
		Namespace: f.namespace, Name: name,
		RecordSpec: recordsv1alpha1.RecordSpec{ControlPlane: "coder", ID: id, Kept: string(kept), Object: object},
	}); err != nil {
		t.Fatal(err)
	}
}

// TestObjectsOfAnEarlierVersion checks that an object keeps its UID and its metadata after the upgrade from a version in which
// the UID was the id in Coder. Dependents of the object refer to the UID.
func TestObjectsOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	s := newSite(t, logged)
	f := prepared(t, s)
	workspace := f.coder.AddWorkspace("ada", f.template, "dev")
	ada, _ := f.coder.User("ada")
	earlierRecord(t, s.workspaces, f, "CoderWorkspace", "coder.ada.dev", workspace.String(), `{"organization":"coder","templateName":"starter","running":true}`)
	earlierRecord(t, s.templates, f, "CoderTemplate", "coder.starter", f.template.String(), `{"organization":"coder"}`)
	earlierRecord(t, s.users, f, "CoderUser", "ada", ada.ID.String(), `{"email":"ada@example.com"}`)
	s.start(t)
	for resource, object := range map[schema.GroupVersionResource]struct{ name, id string }{
		workspacesGVR: {"coder.ada.dev", workspace.String()},
		templatesGVR:  {"coder.starter", f.template.String()},
		usersGVR:      {"ada", ada.ID.String()},
	} {
		t.Run(resource.Resource, func(t *testing.T) {
			objects := s.client.Resource(resource).Namespace(f.namespace)
			// The spec in the record differs from Coder, so the generation increases when the object is read in Coder.
			read := until(t, objects, object.name, func(o *unstructured.Unstructured) bool { return o.GetGeneration() > 3 })
			changed, err := objects.Patch(t.Context(), object.name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"note":"y"}}}`), metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for what, o := range map[string]*unstructured.Unstructured{"read in Coder": read, "changed by a client": changed} {
				if string(o.GetUID()) != object.id {
					t.Errorf("%s: its UID is %s, and was %s", what, o.GetUID(), object.id)
				}
				if o.GetLabels()["app"] != "x" || len(o.GetOwnerReferences()) != 1 || o.GetManagedFields()[0].Manager != "flux" {
					t.Errorf("%s: it is %v", what, o.Object)
				}
				finalizers := o.GetFinalizers()
				if diff := cmp.Diff("example.com/hold", finalizers[len(finalizers)-1]); diff != "" {
					t.Errorf("%s: finalizers (-want +got):\n%s", what, diff)
				}
			}
		})
	}
}
