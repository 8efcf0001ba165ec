package recordstest_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records/recordstest"
)

const (
	firstID  = types.UID("aaaaaaaa-0000-4000-8000-000000000001")
	secondID = types.UID("aaaaaaaa-0000-4000-8000-000000000002")
)

var dev = types.NamespacedName{Namespace: "team", Name: "dev"}

// keeper is a Keeper with the changes that it has reported.
type keeper struct {
	*recordstest.Records
	t       *testing.T
	changed []types.UID
	// gone reports whether the last of them was deleted.
	gone bool
}

// TestKeeper tests the contract of metadata.Records.
func TestKeeper(t *testing.T) {
	for name, test := range map[string]func(*testing.T, *keeper){
		"an empty record is not kept":         keepsNothing,
		"what is put is there at once":        keepsAll,
		"a second write needs the version":    checksVersions,
		"an empty record is removed":          removesEmpty,
		"a removed record can be made again":  makesAgain,
		"deleting":                            deletesRecords,
		"binding":                             binds,
		"binding what was never put":          bindsUnput,
		"binding what has another record":     bindsRenamed,
		"a record keeps its first name":       keepsName,
		"a record edited by hand":             seesEdits,
		"a record deleted by hand":            seesRemovals,
		"own writes are not reported":         isQuiet,
		"another replica reads it":            isShared,
		"what is too large":                   limitsSize,
		"copies of one database":              separatesControlPlanes,
		"nothing is shared with the caller":   copies,
		"pending records of different kinds":  separatesKinds,
		"a record that cannot be read is put": repairs,
	} {
		t.Run(name, func(t *testing.T) {
			k := &keeper{Records: recordstest.New(t), t: t}
			k.OnChange(func(r *metadata.Record, gone bool) { k.changed = append(k.changed, r.UID); k.gone = gone })
			test(t, k)
		})
	}
}

func labelled(uid types.UID, value string) *metadata.Record {
	return &metadata.Record{ControlPlane: dev, Kind: "CoderWorkspace", Name: "default.alice.dev", UID: uid, Labels: map[string]string{"team": value}}
}

// everything returns a record with all fields that can be kept.
func everything(uid types.UID) *metadata.Record {
	at := metav1.NewTime(time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC))
	r := labelled(uid, "blue")
	r.Labels["empty"] = ""
	r.Annotations = map[string]string{"example.com/note": "<b>&\"quoted\"</b>\n"}
	r.Finalizers = []string{"example.com/hold", "example.com/other"}
	r.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "22222222-0000-0000-0000-000000000000",
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(false),
	}}
	r.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "flux", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "aggregation.coder.com/v1alpha1", Time: &at,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:team":{}}},"f:spec":{"f:running":{}}}`),
	}}
	r.Generation, r.DeletionTimestamp, r.DeletionGracePeriodSeconds = 4, &at, ptr.To(int64(0))
	r.Intent = json.RawMessage(`{"build":{"number":7,"wanted":"start"},"list":[1,2.5,null,true],"text":"<x>"}`)
	return r
}

func (k *keeper) put(record *metadata.Record) *metadata.Record {
	k.t.Helper()
	out, err := k.Put(k.t.Context(), record)
	k.must(err)
	return out
}

func (k *keeper) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

func (k *keeper) get(uid types.UID) *metadata.Record {
	record, _ := k.Get(dev, uid)
	return record
}

func (k *keeper) same(what string, got, want *metadata.Record) {
	k.t.Helper()
	ignore := cmpopts.IgnoreFields(metadata.Record{}, "Version", "CreatedAt")
	fields := cmp.Comparer(func(a, b metav1.FieldsV1) bool { return a.Equal(b) })
	times := cmp.Comparer(func(a, b metav1.Time) bool { return a.Equal(&b) })
	if diff := cmp.Diff(want, got, ignore, fields, times, cmpopts.EquateEmpty()); diff != "" {
		k.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func (k *keeper) conflicts(what string, err error) {
	k.t.Helper()
	if !apierrors.IsConflict(err) {
		k.t.Errorf("%s: the error is %v, want a Conflict", what, err)
	}
}

// remove deletes the record itself, as an administrator would. It does not update the Table.
func (k *keeper) remove(uid types.UID) {
	k.t.Helper()
	key, _ := k.Workspaces.Table.KeyOf(dev, uid)
	namespace, name := k.Workspaces.Locate(key)
	record, err := k.Cluster("CoderWorkspace").Get(k.t.Context(), namespace, name, "")
	k.must(err)
	k.must(k.Cluster("CoderWorkspace").Delete(k.t.Context(), namespace, name, record.Revision))
}

// TestUIDInsteadOfID covers a record into which a replica of an earlier version has written the UID of the object
// as its id, because they were the same then. The object is still found by its id.
func TestUIDInsteadOfID(t *testing.T) {
	ctx := t.Context()
	r := recordstest.New(t)
	kept := labelled(firstID, "blue")
	ws := &aggregationv1alpha1.CoderWorkspace{}
	ws.Namespace, ws.Name, ws.UID, ws.Status.ID = dev.Namespace, kept.Name, secondID, string(firstID)
	ws.Labels = map[string]string{aggregationv1alpha1.LabelControlPlaneName: dev.Name}
	key := r.Workspaces.Key(ws.Namespace, ws.Name)
	if err := r.Workspaces.Propose(ctx, records.Proposal{Key: key, Object: ws, Natural: ws.Name}); err != nil {
		t.Fatal(err)
	}
	record := r.Cluster("CoderWorkspace").All()[0]
	text, err := kept.Text()
	record.ID, record.Kept = string(secondID), text
	if err := errors.Join(err, r.Cluster("CoderWorkspace").Update(ctx, &record), r.Workspaces.Learn(ctx, key)); err != nil {
		t.Fatal(err)
	}
	table := r.Workspaces.Table
	if entry, _ := table.Find(dev, firstID); entry == nil || table.Count(dev) != 1 {
		t.Errorf("the object of the id is %v", entry)
	}
	if found, ok := r.Get(dev, firstID); !ok || found.Labels["team"] != "blue" || found.UID != firstID {
		t.Errorf("its metadata is %+v", found)
	}
}
