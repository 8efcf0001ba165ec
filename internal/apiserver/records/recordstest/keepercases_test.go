package recordstest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
)

func keepsNothing(t *testing.T, k *keeper) {
	record := labelled(firstID, "")
	record.Labels, record.Generation, record.Intent = map[string]string{}, 1, json.RawMessage(" {} ")
	if out := k.put(record); out.Version != "" || k.get(firstID) != nil || len(k.Writes()) > 0 {
		t.Errorf("version %q, %v, %v", out.Version, k.get(firstID), k.Writes())
	}
	k.must(k.Delete(t.Context(), record))
}

func keepsAll(t *testing.T, k *keeper) {
	want := everything(firstID)
	put := k.put(want)
	k.same("put", put, want)
	k.same("read", k.get(firstID), want)
	if put.Version == "" || k.get(firstID).CreatedAt.IsZero() {
		t.Errorf("version %q, made %v", put.Version, put.CreatedAt)
	}
	list := k.List(dev)
	if len(list) != 1 {
		t.Fatalf("the list has %d records", len(list))
	}
	k.same("listed", list[0], want)
	if elsewhere := k.List(types.NamespacedName{Namespace: "team", Name: "prod"}); len(elsewhere) > 0 {
		t.Errorf("another control plane has %v", elsewhere)
	}
	if again := k.put(put); again.Version != put.Version {
		t.Errorf("the same again was written: version %s after %s", again.Version, put.Version)
	}
	template := everything(secondID)
	template.Kind, template.Name = "CoderTemplate", "default.starter"
	k.same("of a template", k.put(template), template)
}

func checksVersions(t *testing.T, k *keeper) {
	first := k.put(labelled(firstID, "blue"))
	change := first.DeepCopy()
	change.Labels["team"] = "green"
	second := k.put(change)
	if second.Version == first.Version {
		t.Error("the version is still the same")
	}
	stale := first.DeepCopy()
	stale.Labels["team"] = "red"
	_, err := k.Put(t.Context(), stale)
	k.conflicts("writing with an old version", err)
	_, err = k.Put(t.Context(), labelled(firstID, "red"))
	k.conflicts("making it again", err)
	nothing := labelled(firstID, "")
	nothing.Labels = nil
	_, err = k.Put(t.Context(), nothing)
	k.conflicts("an empty one without the version", err)
	k.same("after the conflicts", k.get(firstID), second)
	// The response of the first attempt was lost. The record already has the wanted content.
	if again := k.put(change); again.Version != second.Version {
		t.Errorf("the repeated write made version %s of %s", again.Version, second.Version)
	}
}

func removesEmpty(t *testing.T, k *keeper) {
	record := k.put(labelled(firstID, "blue")).DeepCopy()
	record.Labels = nil
	if out := k.put(record); out.Version != "" || k.get(firstID) != nil || len(k.List(dev)) != 0 {
		t.Errorf("version %q, %v", out.Version, k.get(firstID))
	}
}

func makesAgain(t *testing.T, k *keeper) {
	for i := range 5 {
		record := k.put(labelled(firstID, fmt.Sprint(i)))
		if got := k.get(firstID); got == nil || got.Labels["team"] != fmt.Sprint(i) {
			t.Fatalf("round %d: %v", i, got)
		}
		k.must(k.Delete(t.Context(), record))
		if got := k.get(firstID); got != nil {
			t.Fatalf("round %d: it is still there: %v", i, got)
		}
	}
	last := k.put(labelled(firstID, "last"))
	if got, ok := k.Replica().Get(dev, firstID); !ok || got.Version != last.Version {
		t.Errorf("another replica has %v", got)
	}
}

func deletesRecords(t *testing.T, k *keeper) {
	first := k.put(labelled(firstID, "blue"))
	change := first.DeepCopy()
	change.Labels["team"] = "green"
	k.put(change)
	k.conflicts("deleting an old version", k.Delete(t.Context(), first))
	whichever := first.DeepCopy()
	whichever.Version = ""
	for _, record := range []*metadata.Record{whichever, whichever, first} {
		k.must(k.Delete(t.Context(), record))
	}
	if k.get(firstID) != nil {
		t.Error("it is still there")
	}
}

func binds(t *testing.T, k *keeper) {
	pending := k.put(labelled("", "blue"))
	found, ok := k.PendingFor(dev, "CoderWorkspace", "default.alice.dev")
	if !ok || found.Version != pending.Version || !found.Pending() {
		t.Fatalf("the pending record is %v", found)
	}
	final := pending.DeepCopy()
	final.Annotations = map[string]string{"example.com/late": "yes"}
	for range 2 {
		bound, err := k.Bind(t.Context(), final, firstID)
		k.must(err)
		want := final.DeepCopy()
		want.UID = firstID
		k.same("bound", bound, want)
		k.same("read", k.get(firstID), want)
		if _, ok := k.PendingFor(dev, "CoderWorkspace", "default.alice.dev"); ok || len(k.List(dev)) != 1 {
			t.Errorf("pending: %t, all %v", ok, k.List(dev))
		}
	}
	_, err := k.Bind(t.Context(), final, secondID)
	k.conflicts("binding to another object", err)
}

func bindsRenamed(t *testing.T, k *keeper) {
	earlier := labelled(firstID, "red")
	earlier.Name = "default.prebuilds.one"
	k.put(earlier)
	bound, err := k.Bind(t.Context(), k.put(labelled("", "blue")), firstID)
	k.must(err)
	k.same("bound", bound, labelled(firstID, "blue"))
	for _, record := range k.All() {
		if record.Name == earlier.Name {
			k.same("the other record", record, earlier)
		}
	}
}

func bindsUnput(t *testing.T, k *keeper) {
	nothing := labelled("", "")
	nothing.Labels = nil
	bound, err := k.Bind(t.Context(), k.put(nothing), firstID)
	k.must(err)
	if bound.Version != "" || k.get(firstID) != nil {
		t.Errorf("bound is %v", bound)
	}
	bound, err = k.Bind(t.Context(), labelled("", "blue"), firstID)
	k.must(err)
	k.same("bound", bound, labelled(firstID, "blue"))
	if _, err := k.Bind(t.Context(), bound, secondID); err == nil {
		t.Error("what is bound could be bound")
	}
}

func keepsName(t *testing.T, k *keeper) {
	record := k.put(labelled(firstID, "blue")).DeepCopy()
	record.Name, record.Labels["team"] = "default.bob.claimed", "green"
	k.put(record)
	if all := k.Cluster("CoderWorkspace").All(); len(all) != 1 || all[0].Name != "default.alice.dev" || k.get(firstID).Labels["team"] != "green" {
		t.Errorf("the records are %v", all)
	}
}

func seesEdits(t *testing.T, k *keeper) {
	record := k.put(labelled(firstID, "blue"))
	k.Edit(dev, firstID, func(r *metadata.Record) { r.Labels["team"] = "by hand" })
	if got := k.get(firstID); got.Labels["team"] != "by hand" || !cmp.Equal(k.changed, []types.UID{firstID}) || k.gone {
		t.Errorf("read is %v, reported were %v, gone %t", got.Labels, k.changed, k.gone)
	}
	change := record.DeepCopy()
	change.Labels["team"] = "green"
	_, err := k.Put(t.Context(), change)
	k.conflicts("writing over the edit", err)
	// An edit that this replica's watch has not delivered yet.
	record = k.get(firstID)
	other := k.Replica()
	other.Edit(dev, firstID, func(r *metadata.Record) { r.Labels["team"] = "again" })
	change = record.DeepCopy()
	change.Labels["team"] = "green"
	_, err = k.Put(t.Context(), change)
	k.conflicts("writing over the second edit", err)
	current := k.get(firstID).DeepCopy()
	if current.Labels["team"] != "again" {
		t.Errorf("after the conflict there is %v", current.Labels)
	}
	current.Labels["team"] = "green"
	k.put(current)
}

func seesRemovals(t *testing.T, k *keeper) {
	record := k.put(everything(firstID))
	other := labelled(secondID, "stays")
	other.Name = "default.alice.other"
	k.put(other)
	key, _ := k.Workspaces.Table.KeyOf(dev, firstID)
	k.remove(firstID)
	k.must(k.Workspaces.Learn(t.Context(), key))
	if !cmp.Equal(k.changed, []types.UID{firstID}) || !k.gone || k.get(firstID) != nil || k.get(secondID) == nil {
		t.Errorf("reported were %v, gone %t; there is %v and %v", k.changed, k.gone, k.get(firstID), k.get(secondID))
	}
	k.must(k.Delete(t.Context(), record))
	k.put(everything(firstID))
	// A deletion that the watch has not delivered yet.
	record = k.get(firstID)
	k.remove(firstID)
	change := record.DeepCopy()
	change.Labels = map[string]string{"team": "green"}
	_, err := k.Put(t.Context(), change)
	k.conflicts("writing what was removed", err)
	change.Version = ""
	k.put(change)
	k.remove(firstID)
	k.must(k.Delete(t.Context(), k.get(firstID)))
}

func isQuiet(t *testing.T, k *keeper) {
	for i := range 5 {
		record := k.put(labelled(firstID, fmt.Sprint(i))).DeepCopy()
		record.Labels["more"] = "yes"
		k.must(k.Delete(t.Context(), k.put(record)))
	}
	if len(k.changed) > 0 {
		t.Errorf("reported were %v", k.changed)
	}
}

func isShared(t *testing.T, k *keeper) {
	k.put(everything(firstID))
	got, ok := k.Replica().Get(dev, firstID)
	if !ok {
		t.Fatal("it is missing")
	}
	k.same("at another replica", got, everything(firstID))
}

func limitsSize(t *testing.T, k *keeper) {
	record := labelled(firstID, "blue")
	record.Annotations = map[string]string{"small": "x", "example.com/big": strings.Repeat("x", 300_000)}
	_, err := k.Put(t.Context(), record)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `"example.com/big"`) || len(err.Error()) > 1000 {
		t.Errorf("the error is %.1000v", err)
	}
	if k.get(firstID) != nil || len(k.Writes()) > 0 {
		t.Error("something was kept")
	}
}

func separatesControlPlanes(t *testing.T, k *keeper) {
	production := k.put(everything(firstID))
	staging := types.NamespacedName{Namespace: "other", Name: "dev"}
	if got, ok := k.Get(staging, firstID); ok {
		t.Fatalf("the copy has %v", got)
	}
	mine := labelled(firstID, "staging")
	mine.ControlPlane = staging
	k.must(k.Delete(t.Context(), k.put(mine)))
	k.same("production", k.get(firstID), production)
	beside := labelled(firstID, "beside")
	beside.ControlPlane.Name = "beside"
	if _, err := k.Put(t.Context(), beside); err == nil || !strings.Contains(err.Error(), `belongs to control plane "dev"`) {
		t.Errorf("two in one namespace: %v", err)
	}
}

func copies(_ *testing.T, k *keeper) {
	mine := everything(firstID)
	put := k.put(mine)
	want := put.DeepCopy()
	mine.Labels["team"], mine.Finalizers[0], mine.Intent[2] = "changed", "changed", 'X'
	*mine.OwnerReferences[0].Controller, *mine.DeletionGracePeriodSeconds = false, 30
	mine.ManagedFields[0].Manager = "changed"
	k.same("after the given record changed", k.get(firstID), want)
	copied := put.DeepCopy()
	copied.Labels["team"], copied.Finalizers[0], copied.Intent[2] = "changed", "changed", 'X'
	k.same("after a copy changed", k.get(firstID), want)
}

func separatesKinds(t *testing.T, k *keeper) {
	k.put(labelled("", "blue"))
	template := labelled("", "green")
	template.Kind = "CoderTemplate"
	k.put(template)
	for kind, want := range map[string]string{"CoderWorkspace": "blue", "CoderTemplate": "green"} {
		if found, ok := k.PendingFor(dev, kind, "default.alice.dev"); !ok || found.Labels["team"] != want {
			t.Errorf("the pending %s is %v", kind, found)
		}
	}
}

func repairs(t *testing.T, k *keeper) {
	k.put(labelled(firstID, "blue"))
	record := k.Cluster("CoderWorkspace").All()[0]
	record.Kept = "labels: {"
	k.must(k.Cluster("CoderWorkspace").Update(t.Context(), &record))
	key, _ := k.Workspaces.Table.KeyOf(dev, firstID)
	k.must(k.Workspaces.Learn(t.Context(), key))
	got := k.get(firstID)
	k.same("while it cannot be read", got, labelled(firstID, "blue"))
	change := got.DeepCopy()
	change.Labels["team"] = "green"
	k.put(change)
	repaired, _ := k.Replica().Get(dev, firstID)
	k.same("repaired", repaired, labelled(firstID, "green"))
}
