package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
)

// TestWhatAnEarlierVersionKept covers the metadata that an earlier version has stored for a
// workspace. The first server that mirrors copies it to the records, and it applies to the object.
func TestWhatAnEarlierVersionKept(t *testing.T) {
	t.Parallel()
	s := newSite(t, logged)
	f := prepared(t, s)
	id := f.coder.AddWorkspace("ada", f.template, "dev")
	old := kept(t, f.namespace, id.String())
	if _, err := s.untyped.Resource(objectMetadata).Namespace(f.namespace).Create(t.Context(), old, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.start(t)
	dev := f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool { return ws.GetUID() == types.UID(id.String()) })
	if dev.GetLabels()["app"] != "x" || dev.GetGeneration() != 3 || len(dev.GetOwnerReferences()) != 1 || dev.GetManagedFields()[0].Manager != "flux" {
		t.Errorf("it is %v", dev.Object)
	}
	if diff := cmp.Diff([]string{"aggregation.coder.com/workspace", "example.com/hold"}, dev.GetFinalizers()); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
	left, err := s.untyped.Resource(objectMetadata).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// kept returns the metadata that an earlier version has stored for a workspace.
func kept(t *testing.T, namespace, id string) *unstructured.Unstructured {
	t.Helper()
	old := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(`{"apiVersion":"internal.coder.com/v1alpha1","kind":"CoderObjectMetadata",
		"metadata":{"namespace":"`+namespace+`","name":"ws-`+id+`"},
		"spec":{"controlPlane":"coder","kind":"CoderWorkspace","name":"coder.ada.dev","uid":"`+id+`","metadata":{
			"labels":{"app":"x"},"finalizers":["example.com/hold"],"generation":3,
			"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"1"}],
			"managedFields":[{"manager":"flux","operation":"Apply","apiVersion":"aggregation.coder.com/v1alpha1","fieldsType":"FieldsV1",
				"fieldsV1":{"f:metadata":{"f:labels":{"f:app":{}}}}}]}}}`), old); err != nil {
		t.Fatal(err)
	}
	return old
}

// busy are the records while another replica writes them.
type busy struct{ metadata.Records }

func (busy) Get(types.NamespacedName, types.UID) (*metadata.Record, bool) { return nil, false }

func (busy) Put(context.Context, *metadata.Record) (*metadata.Record, error) {
	return nil, apierrors.NewConflict(schema.GroupResource{}, "coder.ada.dev", errors.New("another replica writes it"))
}

// TestNothingIsLostWhileAnotherReplicaWrites covers a record that cannot be written yet: the metadata stays where it is.
func TestNothingIsLostWhileAnotherReplicaWrites(t *testing.T) {
	ctx, client := t.Context(), statesClient()
	old := kept(t, "coder", uuid.NewString())
	if _, err := client.Resource(objectMetadata).Namespace("coder").Create(ctx, old, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := migrate(ctx, client, busy{}); !apierrors.IsConflict(err) {
		t.Errorf("it is %v", err)
	}
	if left, err := client.Resource(objectMetadata).List(ctx, metav1.ListOptions{}); err != nil || len(left.Items) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
}
