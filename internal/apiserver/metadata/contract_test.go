package metadata_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const (
	firstID  = types.UID("aaaaaaaa-0000-4000-8000-000000000001")
	secondID = types.UID("aaaaaaaa-0000-4000-8000-000000000002")
)

// contract is what every place of records must do.
var contract = map[string]func(t *testing.T, p *place){
	"nothing to keep costs nothing":              testEmptyIsNotKept,
	"what is put is there at once":               testPut,
	"a second write needs the version":           testVersions,
	"an empty record is removed":                 testRemovedWhenEmpty,
	"a removed record can be made again":         testMadeAgain,
	"deleting":                                   testDelete,
	"binding":                                    testBind,
	"binding what was never put":                 testBindUnput,
	"a record follows a rename":                  testRename,
	"a change by hand is told":                   testEditedByHand,
	"a record deleted by hand":                   testRemovedByHand,
	"own writes are not told":                    testOwnWritesAreQuiet,
	"another replica follows":                    testReplica,
	"a writer that begins misses nothing":        testCatchUp,
	"a record that cannot be read":               testUnreadable,
	"what is too large":                          testSize,
	"copies of one database":                     testSameIDs,
	"what others put on the resource":            testOthers,
	"nothing is shared with who puts":            testNotShared,
	"pending names":                              testPendingNames,
	"the definition refuses what makes no sense": testDefinition,
}

func TestContractInMemory(t *testing.T) { testContract(t, inMemory) }
func TestContractOverAPIServer(t *testing.T) {
	testContract(t, overAPIServer(t))
}

func testContract(t *testing.T, newPlace func(t *testing.T) *place) {
	for _, name := range slices.Sorted(maps.Keys(contract)) {
		t.Run(name, func(t *testing.T) { contract[name](t, newPlace(t)) })
	}
}

// full gives a record with everything that can be kept.
func full(p *place, uid types.UID) *metadata.Record {
	at := metav1.NewTime(time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC))
	return &metadata.Record{
		ControlPlane: p.controlPlane(), Kind: "CoderWorkspace", Name: "default.alice.dev", UID: uid,
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

func labelled(p *place, uid types.UID, value string) *metadata.Record {
	return &metadata.Record{ControlPlane: p.controlPlane(), Kind: "CoderWorkspace", Name: "default.alice.dev", UID: uid, Labels: map[string]string{"team": value}}
}

func (p *place) put(record *metadata.Record) *metadata.Record {
	p.t.Helper()
	out, err := p.records.Put(p.t.Context(), record)
	must(p.t, err)
	return out
}

func (p *place) get(uid types.UID) *metadata.Record {
	record, _ := p.records.Get(p.controlPlane(), uid)
	return record
}

// sameRecord compares what is kept, and not when it was written.
func sameRecord(t *testing.T, what string, got, want *metadata.Record) {
	t.Helper()
	ignore := cmpopts.IgnoreFields(metadata.Record{}, "Version", "CreatedAt")
	fields := cmp.Comparer(func(a, b metav1.FieldsV1) bool { return a.Equal(b) })
	times := cmp.Comparer(func(a, b metav1.Time) bool { return a.Equal(&b) })
	if diff := cmp.Diff(want, got, ignore, fields, times, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func wantConflict(t *testing.T, what string, err error) {
	t.Helper()
	if !apierrors.IsConflict(err) {
		t.Errorf("%s: the error is %v, and should be a Conflict", what, err)
	}
}

func testEmptyIsNotKept(t *testing.T, p *place) {
	record := &metadata.Record{
		ControlPlane: p.controlPlane(), Kind: "CoderWorkspace", Name: "default.alice.dev", UID: firstID, Generation: 1,
		Labels: map[string]string{}, Finalizers: []string{}, ManagedFields: metadata.ManagedFields(), Intent: json.RawMessage(" {} "),
	}
	if out := p.put(record); out.Version != "" {
		t.Errorf("it got version %s", out.Version)
	}
	if listings, err := p.cluster.List(t.Context()); err != nil || len(listings[0].Resources) > 0 && listings[0].Namespace != "" {
		t.Errorf("the cluster has %v, %v", listings, err)
	}
	if p.get(firstID) != nil {
		t.Error("there is a record")
	}
	must(t, p.records.Delete(t.Context(), record))
}

func testPut(t *testing.T, p *place) {
	want := full(p, firstID)
	put := p.put(want)
	sameRecord(t, "put", put, want)
	sameRecord(t, "read", p.get(firstID), want)
	if put.Version == "" || put.CreatedAt.IsZero() {
		t.Errorf("version %q, made %v", put.Version, put.CreatedAt)
	}
	list := p.records.List(p.controlPlane())
	if len(list) != 1 {
		t.Fatalf("the list has %d records", len(list))
	}
	sameRecord(t, "listed", list[0], want)
	if elsewhere := p.records.List(types.NamespacedName{Namespace: p.team, Name: "prod"}); len(elsewhere) > 0 {
		t.Errorf("another control plane has %v", elsewhere)
	}
	if again := p.put(want); again.Version != put.Version {
		t.Errorf("the same again was written: version %s after %s", again.Version, put.Version)
	}
	owners := p.resource(want).OwnerReferences
	if len(owners) != 1 || owners[0].Kind != "CoderControlPlane" || owners[0].Name != "dev" || owners[0].UID != controlPlaneUID || owners[0].APIVersion != "coder.com/v1alpha1" {
		t.Errorf("the resource is owned by %v", owners)
	}
	template := full(p, secondID)
	template.Kind, template.Name = "CoderTemplate", "default.starter"
	sameRecord(t, "of a template", p.put(template), template)
	if key, err := metadata.ResourceKey(template); err != nil || key.Name != "tpl-"+string(secondID) {
		t.Errorf("the record of a template is in %v, %v", key, err)
	}
}

func testVersions(t *testing.T, p *place) {
	first := p.put(labelled(p, firstID, "blue"))
	change := first.DeepCopy()
	change.Labels["team"] = "green"
	second := p.put(change)
	if second.Version == first.Version {
		t.Error("the version is still the same")
	}
	stale := first.DeepCopy()
	stale.Labels["team"] = "red"
	_, err := p.records.Put(t.Context(), stale)
	wantConflict(t, "writing with an old version", err)
	_, err = p.records.Put(t.Context(), labelled(p, firstID, "red"))
	wantConflict(t, "making it again", err)
	_, err = p.records.Put(t.Context(), &metadata.Record{ControlPlane: p.controlPlane(), Kind: "CoderWorkspace", Name: "default.alice.dev", UID: firstID})
	wantConflict(t, "wanting none where one was not known", err)
	sameRecord(t, "after the conflicts", p.get(firstID), second)

	// An answer that was lost: what is written is already so.
	if again := p.put(change); again.Version != second.Version {
		t.Errorf("the repeated write made version %s of %s", again.Version, second.Version)
	}
}

func testRemovedWhenEmpty(t *testing.T, p *place) {
	record := p.put(labelled(p, firstID, "blue")).DeepCopy()
	record.Labels = nil
	if out := p.put(record); out.Version != "" {
		t.Errorf("it still has version %s", out.Version)
	}
	if p.get(firstID) != nil || len(p.records.List(p.controlPlane())) != 0 {
		t.Error("it is still there")
	}
	p.put(record)
}

func testMadeAgain(t *testing.T, p *place) {
	for i := range 5 {
		record := p.put(labelled(p, firstID, fmt.Sprint(i)))
		if got := p.get(firstID); got == nil || got.Labels["team"] != fmt.Sprint(i) {
			t.Fatalf("round %d: %v", i, got)
		}
		must(t, p.records.Delete(t.Context(), record))
		if got := p.get(firstID); got != nil {
			t.Fatalf("round %d: it is still there: %v", i, got)
		}
	}
	last := p.put(labelled(p, firstID, "last"))
	other := p.replica()
	polltest.Eventually(t, "another replica", func() error {
		if got, ok := other.Get(p.controlPlane(), firstID); !ok || got.Version != last.Version {
			return fmt.Errorf("it has %v", got)
		}
		return nil
	})
	if got := p.get(firstID); got == nil || got.Version != last.Version {
		t.Errorf("in the end there is %v", got)
	}
}

func testDelete(t *testing.T, p *place) {
	first := p.put(labelled(p, firstID, "blue"))
	change := first.DeepCopy()
	change.Labels["team"] = "green"
	p.put(change)
	wantConflict(t, "deleting an old version", p.records.Delete(t.Context(), first))
	any := first.DeepCopy()
	any.Version = ""
	must(t, p.records.Delete(t.Context(), any))
	must(t, p.records.Delete(t.Context(), any))
	must(t, p.records.Delete(t.Context(), first))
	if p.get(firstID) != nil {
		t.Error("it is still there")
	}
}

func testBind(t *testing.T, p *place) {
	pending := p.put(labelled(p, "", "blue"))
	found, ok := p.records.PendingFor(p.controlPlane(), "CoderWorkspace", "default.alice.dev")
	if !ok || found.Version != pending.Version || !found.Pending() {
		t.Fatalf("the pending record is %v", found)
	}
	if _, ok := p.records.PendingFor(p.controlPlane(), "CoderTemplate", "default.alice.dev"); ok {
		t.Error("a template of the same name is pending")
	}
	final := pending.DeepCopy()
	final.Annotations = map[string]string{"example.com/late": "yes"}
	for range 2 {
		bound, err := p.records.Bind(t.Context(), final, firstID)
		must(t, err)
		want := final.DeepCopy()
		want.UID = firstID
		sameRecord(t, "bound", bound, want)
		sameRecord(t, "read", p.get(firstID), want)
		if _, ok := p.records.PendingFor(p.controlPlane(), "CoderWorkspace", "default.alice.dev"); ok {
			t.Error("the pending record is still there")
		}
		if all := p.records.List(p.controlPlane()); len(all) != 1 {
			t.Errorf("there are %d records", len(all))
		}
	}
	// The next object of that name is another one.
	p.put(labelled(p, "", "green"))
	if next, ok := p.records.PendingFor(p.controlPlane(), "CoderWorkspace", "default.alice.dev"); !ok || next.Labels["team"] != "green" {
		t.Errorf("the next pending record is %v", next)
	}
}

func testBindUnput(t *testing.T, p *place) {
	nothing := labelled(p, "", "")
	nothing.Labels = nil
	bound, err := p.records.Bind(t.Context(), p.put(nothing), firstID)
	must(t, err)
	if bound.Version != "" || p.get(firstID) != nil {
		t.Errorf("bound is %v", bound)
	}
	bound, err = p.records.Bind(t.Context(), labelled(p, "", "blue"), firstID)
	must(t, err)
	sameRecord(t, "bound", bound, labelled(p, firstID, "blue"))
	if _, err := p.records.Bind(t.Context(), bound, secondID); err == nil {
		t.Error("what is bound could be bound")
	}
	_, err = p.records.Bind(t.Context(), labelled(p, "", "red"), firstID)
	wantConflict(t, "binding to an object that has another record", err)
}

func testRename(t *testing.T, p *place) {
	record := p.put(labelled(p, firstID, "blue")).DeepCopy()
	record.Name = "default.bob.claimed"
	p.put(record)
	if got := p.get(firstID); got.Name != "default.bob.claimed" || len(p.records.List(p.controlPlane())) != 1 {
		t.Errorf("it is %v", got)
	}
}

// listener collects what is told.
type listener struct {
	mu   sync.Mutex
	told []*metadata.Record
}

func (l *listener) listen(record *metadata.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, record)
}

func (l *listener) all() []*metadata.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.told)
}

func (l *listener) waitFor(t *testing.T, what string, check func(*metadata.Record) bool) {
	t.Helper()
	polltest.Eventually(t, what, func() error {
		if told := l.all(); !slices.ContainsFunc(told, check) {
			return fmt.Errorf("told was %v", told)
		}
		return nil
	})
}

func testEditedByHand(t *testing.T, p *place) {
	var l listener
	p.records.OnChange(l.listen)
	record := p.put(labelled(p, firstID, "blue"))
	p.edit(record, func(r *metadata.Record) { r.Labels["team"] = "by hand" })
	l.waitFor(t, "the edit", func(r *metadata.Record) bool { return r.UID == firstID && r.Labels["team"] == "by hand" })
	if got := p.get(firstID); got.Labels["team"] != "by hand" {
		t.Errorf("read is %v", got.Labels)
	}
	change := record.DeepCopy()
	change.Labels["team"] = "green"
	_, err := p.records.Put(t.Context(), change)
	wantConflict(t, "writing over the edit", err)

	// An edit that the watch has not told of yet.
	record = p.get(firstID)
	p.edit(record, func(r *metadata.Record) { r.Labels["team"] = "again" })
	change = record.DeepCopy()
	change.Labels["team"] = "green"
	_, err = p.records.Put(t.Context(), change)
	wantConflict(t, "writing over the second edit", err)
	current := p.get(firstID).DeepCopy()
	if current.Labels["team"] != "again" {
		t.Errorf("after the conflict there is %v", current.Labels)
	}
	current.Labels["team"] = "green"
	p.put(current)
}

// testRemovedByHand: labels vanish, and nothing else breaks.
func testRemovedByHand(t *testing.T, p *place) {
	var l listener
	p.records.OnChange(l.listen)
	record := p.put(full(p, firstID))
	p.put(labelled(p, secondID, "stays"))
	p.remove(record)
	l.waitFor(t, "the removal", func(r *metadata.Record) bool {
		return r.UID == firstID && r.ControlPlane == p.controlPlane() && r.Kind == "CoderWorkspace" && r.Name == "default.alice.dev" && r.Version == "" && r.IsEmpty()
	})
	if got := p.get(firstID); got != nil {
		t.Errorf("there still is %v", got)
	}
	if got := p.get(secondID); got == nil {
		t.Error("the other record is gone")
	}
	must(t, p.records.Delete(t.Context(), record))
	_, err := p.records.Put(t.Context(), full(p, firstID).DeepCopy())
	must(t, err)

	// Removed, and the watch has not told of it yet.
	record = p.get(firstID)
	p.remove(record)
	change := record.DeepCopy()
	change.Labels = map[string]string{"team": "green"}
	_, err = p.records.Put(t.Context(), change)
	wantConflict(t, "writing what was removed", err)
	if got := p.get(firstID); got != nil {
		t.Errorf("after the conflict there is %v", got)
	}
	change.Version = ""
	p.put(change)
	p.remove(change)
	must(t, p.records.Delete(t.Context(), p.ifKnown(firstID, change)))
}

func (p *place) ifKnown(uid types.UID, record *metadata.Record) *metadata.Record {
	if known := p.get(uid); known != nil {
		return known
	}
	return record
}

func testOwnWritesAreQuiet(t *testing.T, p *place) {
	var l listener
	p.records.OnChange(l.listen)
	for i := range 20 {
		record := p.put(labelled(p, firstID, fmt.Sprint(i))).DeepCopy()
		record.Labels["more"] = "yes"
		record = p.put(record)
		must(t, p.records.Delete(t.Context(), record))
	}
	pending := p.put(labelled(p, "", "blue"))
	_, err := p.records.Bind(t.Context(), pending, secondID)
	must(t, err)
	// What is told in order has been told when the last of it was.
	last := p.put(labelled(p, firstID, "blue"))
	p.edit(last, func(r *metadata.Record) { r.Labels["team"] = "by hand" })
	l.waitFor(t, "the edit", func(r *metadata.Record) bool { return r.Labels["team"] == "by hand" })
	if told := l.all(); len(told) != 1 {
		t.Errorf("told was %d times: %v", len(told), told)
	}
}

func testReplica(t *testing.T, p *place) {
	before := p.put(full(p, secondID))
	other := p.replica()
	got, ok := other.Get(p.controlPlane(), secondID)
	if !ok {
		t.Fatal("what was there before is missing")
	}
	sameRecord(t, "there before", got, before)
	var l listener
	other.OnChange(l.listen)
	record := p.put(labelled(p, firstID, "blue"))
	l.waitFor(t, "the new record", func(r *metadata.Record) bool { return r.Version == record.Version })
	must(t, p.records.Delete(t.Context(), record))
	l.waitFor(t, "the removal", func(r *metadata.Record) bool { return r.UID == firstID && r.Version == "" })
	if _, ok := other.Get(p.controlPlane(), firstID); ok {
		t.Error("it is still there")
	}
}

func testCatchUp(t *testing.T, p *place) {
	next := metadata.NewStore(metadata.Config{Cluster: p.cluster})
	if next.Ready() == nil {
		t.Error("it is ready before it has read anything")
	}
	gone := p.put(labelled(p, secondID, "blue"))
	must(t, next.CatchUp(t.Context()))
	record := p.put(labelled(p, firstID, "blue"))
	must(t, p.records.Delete(t.Context(), gone))
	must(t, next.CatchUp(t.Context()))
	if err := next.Ready(); err != nil {
		t.Error(err)
	}
	if got, ok := next.Get(p.controlPlane(), firstID); !ok || got.Version != record.Version {
		t.Errorf("it has %v", got)
	}
	if got, ok := next.Get(p.controlPlane(), secondID); ok {
		t.Errorf("it still has %v", got)
	}
}

func testUnreadable(t *testing.T, p *place) {
	if p.checks {
		t.Skip("the API server does not take what cannot be read")
	}
	var l listener
	p.records.OnChange(l.listen)
	record, good := p.put(labelled(p, firstID, "blue")), p.put(labelled(p, secondID, "good"))
	p.spoil(record)
	l.waitFor(t, "that it cannot be read", func(r *metadata.Record) bool { return r.UID == firstID && r.IsEmpty() })
	if got := p.get(firstID); got != nil {
		t.Errorf("read was %v", got)
	}
	other := p.replica()
	if got, ok := other.Get(p.controlPlane(), secondID); !ok || got.Version != good.Version {
		t.Errorf("of the others, another replica reads %v", got)
	}
	if all := other.List(p.controlPlane()); len(all) != 1 {
		t.Errorf("another replica lists %v", all)
	}
	healed := p.put(labelled(p, firstID, "healed"))
	sameRecord(t, "after it was written anew", p.get(firstID), healed)
	p.spoil(record)
	must(t, p.records.Delete(t.Context(), &metadata.Record{ControlPlane: p.controlPlane(), Kind: "CoderWorkspace", Name: "default.alice.dev", UID: firstID}))
	polltest.Eventually(t, "its removal", func() error {
		if _, err := p.cluster.Get(t.Context(), types.NamespacedName{Namespace: p.team, Name: "ws-" + string(firstID)}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the resource: %w", err)
		}
		return nil
	})
}

func testSize(t *testing.T, p *place) {
	big := strings.Repeat("x", 300_000)
	for name, want := range map[string]struct {
		spoil func(*metadata.Record)
		words []string
	}{
		"annotations": {func(r *metadata.Record) { r.Annotations = map[string]string{"small": "x", "example.com/big": big} },
			[]string{"metadata.annotations", "300021 bytes", `"example.com/big"`, "262144"}},
		"managed fields": {func(r *metadata.Record) {
			r.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "argocd", FieldsV1: metav1.NewFieldsV1(`{"f:` + big + `":{}}`)}}
		}, []string{"metadata.managedFields", `"argocd"`, "262144"}},
		"intent": {func(r *metadata.Record) { r.Intent = json.RawMessage(`{"big":"` + big + `"}`) }, []string{"spec", "300010 bytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			record := labelled(p, firstID, "blue")
			want.spoil(record)
			_, err := p.records.Put(t.Context(), record)
			if !apierrors.IsInvalid(err) {
				t.Fatalf("the error is %v", err)
			}
			for _, word := range append(want.words, "default.alice.dev") {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the error does not say %s: %v", word, err)
				}
			}
			if len(err.Error()) > 1000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
	if p.get(firstID) != nil {
		t.Error("something was kept")
	}
	fits := labelled(p, firstID, "blue")
	fits.Annotations = map[string]string{"a": strings.Repeat("x", 256*1024-1)}
	fits.Intent = json.RawMessage(`{"big":"` + strings.Repeat("x", 256*1024-20) + `"}`)
	fits.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "a", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:` + strings.Repeat("x", 256*1024-20) + `":{}}`)}}
	sameRecord(t, "the largest that fits", p.put(fits), fits)
}

func testSameIDs(t *testing.T, p *place) {
	production := p.put(full(p, firstID))
	staging := types.NamespacedName{Namespace: p.other, Name: "dev"}
	if got, ok := p.records.Get(staging, firstID); ok {
		t.Fatalf("the copy is taken for being deleted: %v", got)
	}
	mine := labelled(p, firstID, "staging")
	mine.ControlPlane = staging
	mine = p.put(mine)
	must(t, p.records.Delete(t.Context(), mine))
	sameRecord(t, "production", p.get(firstID), production)

	beside := labelled(p, firstID, "beside")
	beside.ControlPlane.Name = "beside"
	_, err := p.records.Put(t.Context(), beside)
	if err == nil || apierrors.IsConflict(err) || !strings.Contains(err.Error(), `belongs to control plane "dev"`) {
		t.Errorf("two in one namespace: %v", err)
	}
}

func testOthers(t *testing.T, p *place) {
	record := p.put(labelled(p, firstID, "blue"))
	resource := p.resource(record)
	resource.Labels = map[string]string{"velero.io/backup": "nightly"}
	resource.Annotations = map[string]string{"example.com/seen": "yes"}
	resource.OwnerReferences = append(resource.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "mine", UID: "33333333-0000-0000-0000-000000000000"})
	must(t, p.cluster.Update(t.Context(), resource))
	polltest.Eventually(t, "the labels of the resource", func() error {
		change := p.get(firstID).DeepCopy()
		change.Labels["team"] = "green"
		if _, err := p.records.Put(t.Context(), change); err != nil {
			return err
		}
		return nil
	})
	resource = p.resource(record)
	if resource.Labels["velero.io/backup"] != "nightly" || resource.Annotations["example.com/seen"] != "yes" || len(resource.OwnerReferences) != 2 {
		t.Errorf("the resource is left with %v, %v, %v", resource.Labels, resource.Annotations, resource.OwnerReferences)
	}
}

func testNotShared(t *testing.T, p *place) {
	mine := full(p, firstID)
	put := p.put(mine)
	want := put.DeepCopy()
	mine.Labels["team"], mine.Finalizers[0], mine.Intent[2] = "changed", "changed", 'X'
	*mine.OwnerReferences[0].Controller, *mine.DeletionGracePeriodSeconds = false, 30
	mine.DeletionTimestamp.Time = time.Unix(0, 0)
	mine.ManagedFields[0].Manager = "changed"
	sameRecord(t, "after the given record changed", p.get(firstID), want)
	copied := put.DeepCopy()
	copied.Labels["team"], copied.Annotations["x"], copied.Finalizers[0] = "changed", "changed", "changed"
	*copied.OwnerReferences[0].Controller = false
	*copied.DeletionGracePeriodSeconds = 30
	copied.Intent[2] = 'X'
	sameRecord(t, "after a copy changed", p.get(firstID), want)
}

// testPendingNames: names in Coder are not names in Kubernetes.
func testPendingNames(t *testing.T, p *place) {
	keys := map[types.NamespacedName]bool{}
	for _, plane := range []string{"dev", "prod", ""} {
		for _, name := range []string{"default.Alice.DEV", "default.alice.dev", "prod/x"} {
			for _, kind := range []string{"CoderWorkspace", "CoderTemplate"} {
				record := labelled(p, "", "blue")
				record.ControlPlane.Name, record.Name, record.Kind = plane, name, kind
				record = p.put(record)
				if found, ok := p.records.PendingFor(record.ControlPlane, kind, name); !ok || found.Version != record.Version {
					t.Errorf("%s %s of %q is not found", kind, name, plane)
				}
				key, err := metadata.ResourceKey(record)
				must(t, err)
				keys[key] = true
			}
		}
	}
	if len(keys) != 18 {
		t.Errorf("18 records are in %d resources", len(keys))
	}
}

func testDefinition(t *testing.T, p *place) {
	if !p.checks {
		t.Skip("only an API server knows the definition")
	}
	record := p.put(labelled(p, firstID, "blue"))
	for name, spec := range map[string]string{
		"another kind":           `{"kind":"CoderTemplate","name":"a","uid":"` + string(firstID) + `","controlPlane":"dev"}`,
		"an unknown kind":        `{"kind":"Pod","name":"a","uid":"` + string(firstID) + `","controlPlane":"dev"}`,
		"another id":             `{"kind":"CoderWorkspace","name":"a","uid":"` + string(secondID) + `","controlPlane":"dev"}`,
		"no id":                  `{"kind":"CoderWorkspace","name":"a","controlPlane":"dev"}`,
		"no name":                `{"kind":"CoderWorkspace","uid":"` + string(firstID) + `","controlPlane":"dev"}`,
		"another control plane":  `{"kind":"CoderWorkspace","name":"a","uid":"` + string(firstID) + `","controlPlane":"prod"}`,
		"a time that is none":    `{"kind":"CoderWorkspace","name":"a","uid":"` + string(firstID) + `","controlPlane":"dev","metadata":{"deletionTimestamp":"soon"}}`,
		"labels that are none":   `{"kind":"CoderWorkspace","name":"a","uid":"` + string(firstID) + `","controlPlane":"dev","metadata":{"labels":{"a":1}}}`,
		"an intent that is none": `{"kind":"CoderWorkspace","name":"a","uid":"` + string(firstID) + `","controlPlane":"dev","intent":"start"}`,
	} {
		resource := p.resource(record)
		resource.Spec = json.RawMessage(spec)
		if err := p.cluster.Update(t.Context(), resource); !apierrors.IsInvalid(err) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}
