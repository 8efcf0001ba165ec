package metadata_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
)

const (
	firstID  = types.UID("aaaaaaaa-0000-4000-8000-000000000001")
	secondID = types.UID("aaaaaaaa-0000-4000-8000-000000000002")
)

// full returns a record with all fields that can be kept.
func full(uid types.UID) *metadata.Record {
	at := metav1.NewTime(time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC))
	return &metadata.Record{
		ControlPlane: types.NamespacedName{Namespace: "team", Name: "dev"}, Kind: "CoderWorkspace", Name: "default.alice.dev", UID: uid,
		Labels:      map[string]string{"team": "blue", "empty": ""},
		Annotations: map[string]string{"example.com/note": "<b>&\"quoted\"</b>\n"},
		Finalizers:  []string{"example.com/hold", "example.com/other"},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "22222222-0000-0000-0000-000000000000",
			Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(false),
		}},
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "flux", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "aggregation.coder.com/v1alpha1", Time: &at,
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:team":{}}},"f:spec":{"f:parameters":{"k:{\"name\":\"cpu\"}":{".":{},"f:value":{}}},"f:running":{}}}`),
		}},
		Generation: 4, DeletionTimestamp: &at, DeletionGracePeriodSeconds: ptr.To(int64(0)),
		Intent: json.RawMessage(`{"build":{"number":7,"wanted":"start"},"list":[1,2.5,null,true],"text":"<x>"}`),
	}
}

// sameRecord compares what is kept. It ignores when it was written.
func sameRecord(t *testing.T, what string, got, want *metadata.Record) {
	t.Helper()
	ignore := cmpopts.IgnoreFields(metadata.Record{}, "Version", "CreatedAt")
	fields := cmp.Comparer(func(a, b metav1.FieldsV1) bool { return a.Equal(b) })
	times := cmp.Comparer(func(a, b metav1.Time) bool { return a.Equal(&b) })
	if diff := cmp.Diff(want, got, ignore, fields, times, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
