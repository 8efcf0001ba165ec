package apiserver

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestWhatAnEarlierVersionKept covers the metadata that an earlier version has stored for a
// workspace. The first server that mirrors copies it to the records, and it applies to the object.
func TestWhatAnEarlierVersionKept(t *testing.T) {
	t.Parallel()
	s := newSite(t, logged)
	f := prepared(t, s)
	id := f.coder.AddWorkspace("ada", f.template, "dev")
	old := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(`{"apiVersion":"internal.coder.com/v1alpha1","kind":"CoderObjectMetadata",
		"metadata":{"namespace":"`+f.namespace+`","name":"ws-`+id.String()+`"},
		"spec":{"controlPlane":"coder","kind":"CoderWorkspace","name":"coder.ada.dev","uid":"`+id.String()+`","metadata":{
			"labels":{"app":"x"},"finalizers":["example.com/hold"],"generation":3,
			"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"1"}],
			"managedFields":[{"manager":"flux","operation":"Apply","apiVersion":"aggregation.coder.com/v1alpha1","fieldsType":"FieldsV1",
				"fieldsV1":{"f:metadata":{"f:labels":{"f:app":{}}}}}]}}}`), old); err != nil {
		t.Fatal(err)
	}
	if _, err := s.untyped.Resource(objectMetadata).Namespace(f.namespace).Create(t.Context(), old, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.start(t)
	dev := f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool { return idIn(ws) == id.String() })
	if dev.GetLabels()["app"] != "x" || dev.GetGeneration() != 3 || len(dev.GetOwnerReferences()) != 1 || dev.GetManagedFields()[0].Manager != "flux" {
		t.Errorf("it is %v", dev.Object)
	}
	// Dependents of the object refer to this UID.
	if string(dev.GetUID()) != id.String() {
		t.Errorf("its UID is %s, and was %s", dev.GetUID(), id)
	}
	if diff := cmp.Diff([]string{"aggregation.coder.com/workspace", "example.com/hold"}, dev.GetFinalizers()); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
	left, err := s.untyped.Resource(objectMetadata).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}
