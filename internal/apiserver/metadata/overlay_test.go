package metadata_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
)

// served returns an object as it is converted from Coder, before a record is applied.
func served() *aggregationv1alpha1.CoderWorkspace {
	return &aggregationv1alpha1.CoderWorkspace{ObjectMeta: metav1.ObjectMeta{
		Name: "default.alice.dev", Namespace: "team", UID: firstID, Generation: 1,
		Labels: map[string]string{
			aggregationv1alpha1.LabelControlPlaneName: "dev", aggregationv1alpha1.LabelControlPlaneNamespace: "team",
		},
		Finalizers: []string{aggregationv1alpha1.FinalizerWorkspace}, ManagedFields: metadata.ManagedFields(),
	}}
}

func TestKeepOfAnObjectOfCoderIsEmpty(t *testing.T) {
	record := &metadata.Record{
		Labels: map[string]string{"old": "x"}, Annotations: map[string]string{"old": "x"}, Finalizers: []string{"old"},
		OwnerReferences: []metav1.OwnerReference{{Name: "old"}}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "old"}}, Generation: 7,
	}
	metadata.Keep(served(), record)
	if !record.IsEmpty() {
		t.Errorf("kept is %+v", record)
	}
	obj := served()
	metadata.Overlay(obj, record)
	if diff := cmp.Diff(served(), obj, comparers()); diff != "" {
		t.Errorf("an empty record changes (-want +got):\n%s", diff)
	}
	metadata.Overlay(obj, nil)
	if diff := cmp.Diff(served(), obj, comparers()); diff != "" {
		t.Errorf("no record changes (-want +got):\n%s", diff)
	}
}

func comparers() cmp.Option {
	return cmp.Comparer(func(a, b metav1.FieldsV1) bool { return a.Equal(b) })
}

// TestKeepThenOverlay checks that a user's metadata is restored on an object that is converted
// again, and that neither object shares memory with the record.
func TestKeepThenOverlay(t *testing.T) {
	want := served()
	from := full(firstID)
	metadata.Overlay(want, from)
	want.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = "{}"

	record := &metadata.Record{
		ControlPlane: types.NamespacedName{Namespace: "team", Name: "dev"}, Kind: "CoderWorkspace", Name: "n", UID: secondID,
		Intent: json.RawMessage(`{"a":1}`), Version: "7",
	}
	source := want.DeepCopy()
	metadata.Keep(source, record)
	if record.Name != "n" || record.UID != secondID || record.Version != "7" || string(record.Intent) != `{"a":1}` || record.ControlPlane.Name != "dev" {
		t.Errorf("the rest of the record became %+v", record)
	}
	for _, own := range []string{aggregationv1alpha1.LabelControlPlaneName, aggregationv1alpha1.LabelControlPlaneNamespace} {
		if _, ok := record.Labels[own]; ok {
			t.Errorf("the server's label %s was kept", own)
		}
	}
	kept := record.DeepCopy()
	obj := served()
	metadata.Overlay(obj, record)
	if diff := cmp.Diff(want, obj, comparers()); diff != "" {
		t.Errorf("laid over is (-want +got):\n%s", diff)
	}
	for _, changed := range []*aggregationv1alpha1.CoderWorkspace{source, obj} {
		changed.Labels["team"], changed.Annotations["example.com/note"] = "changed", "changed"
		for i := range changed.Finalizers {
			changed.Finalizers[i] = "changed"
		}
		*changed.OwnerReferences[0].Controller = false
		changed.ManagedFields[0].Manager = "changed"
		changed.ManagedFields[0].FieldsV1.SetRawString(`{}`)
		changed.DeletionTimestamp.Time = changed.DeletionTimestamp.AddDate(1, 0, 0)
		*changed.DeletionGracePeriodSeconds = 99
	}
	sameRecord(t, "after the objects changed", record, kept)
}

// TestOverlayKeepsTheServersLabels checks that a record cannot override the server's labels.
func TestOverlayKeepsTheServersLabels(t *testing.T) {
	obj := served()
	metadata.Overlay(obj, &metadata.Record{
		Labels: map[string]string{aggregationv1alpha1.LabelControlPlaneName: "forged", aggregationv1alpha1.LabelControlPlaneNamespace: "forged", "a": "b"},
		// The same applies to the server's finalizer: a template has none.
		Finalizers: []string{aggregationv1alpha1.FinalizerWorkspace, "example.com/hold"},
	})
	if obj.Labels[aggregationv1alpha1.LabelControlPlaneName] != "dev" || obj.Labels[aggregationv1alpha1.LabelControlPlaneNamespace] != "team" || obj.Labels["a"] != "b" {
		t.Errorf("labels are %v", obj.Labels)
	}
	if diff := cmp.Diff([]string{aggregationv1alpha1.FinalizerWorkspace, "example.com/hold"}, obj.Finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
	template := &aggregationv1alpha1.CoderTemplate{}
	metadata.Overlay(template, &metadata.Record{Labels: map[string]string{aggregationv1alpha1.LabelControlPlaneName: "forged"}, Finalizers: []string{aggregationv1alpha1.FinalizerWorkspace}})
	if len(template.Labels) > 0 || len(template.Finalizers) > 0 {
		t.Errorf("a template got %v, %v", template.Labels, template.Finalizers)
	}
}

func TestIsEmpty(t *testing.T) {
	status := metadata.ManagedFields()[0]
	for name, c := range map[string]struct {
		change func(*metadata.Record)
		want   bool
	}{
		"nothing":            {func(*metadata.Record) {}, true},
		"generation 1":       {func(r *metadata.Record) { r.Generation = 1 }, true},
		"generation 2":       {func(r *metadata.Record) { r.Generation = 2 }, false},
		"empty maps":         {func(r *metadata.Record) { r.Labels, r.Annotations = map[string]string{}, map[string]string{} }, true},
		"an empty label":     {func(r *metadata.Record) { r.Labels = map[string]string{"a": ""} }, false},
		"an annotation":      {func(r *metadata.Record) { r.Annotations = map[string]string{"a": "b"} }, false},
		"a finalizer":        {func(r *metadata.Record) { r.Finalizers = []string{"a/b"} }, false},
		"an owner":           {func(r *metadata.Record) { r.OwnerReferences = []metav1.OwnerReference{{}} }, false},
		"a deletion":         {func(r *metadata.Record) { r.DeletionTimestamp = &metav1.Time{Time: now} }, false},
		"a grace period":     {func(r *metadata.Record) { r.DeletionGracePeriodSeconds = new(int64) }, false},
		"an empty intent":    {func(r *metadata.Record) { r.Intent = json.RawMessage("{}\n") }, true},
		"no intent":          {func(r *metadata.Record) { r.Intent = json.RawMessage("null") }, true},
		"an intent":          {func(r *metadata.Record) { r.Intent = json.RawMessage(`{"a":null}`) }, false},
		"Coder's own fields": {func(r *metadata.Record) { r.ManagedFields = []metav1.ManagedFieldsEntry{status} }, true},
		"at some time": {func(r *metadata.Record) {
			e := status
			e.Time = &metav1.Time{Time: now}
			r.ManagedFields = []metav1.ManagedFieldsEntry{e}
		}, true},
		"with spaces": {func(r *metadata.Record) {
			e := status
			e.FieldsV1 = metav1.NewFieldsV1(`{ "f:status": {} }`)
			r.ManagedFields = []metav1.ManagedFieldsEntry{e}
		}, true},
		"a field more": {func(r *metadata.Record) {
			e := status
			e.FieldsV1 = metav1.NewFieldsV1(`{"f:spec":{"f:running":{}},"f:status":{}}`)
			r.ManagedFields = []metav1.ManagedFieldsEntry{e}
		}, false},
		"of somebody else": {func(r *metadata.Record) {
			e := status
			e.Manager = "kubectl"
			r.ManagedFields = []metav1.ManagedFieldsEntry{e}
		}, false},
		"and somebody else's": {func(r *metadata.Record) {
			e := status
			e.Manager = "kubectl"
			r.ManagedFields = []metav1.ManagedFieldsEntry{status, e}
		}, false},
	} {
		record := &metadata.Record{Kind: "CoderWorkspace", Name: "a", UID: firstID, Version: "7"}
		c.change(record)
		if got := record.IsEmpty(); got != c.want {
			t.Errorf("%s: IsEmpty is %v", name, got)
		}
	}
	if !(*metadata.Record)(nil).IsEmpty() {
		t.Error("nil is not empty")
	}
}
