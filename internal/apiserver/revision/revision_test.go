package revision

import (
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

var at = time.Date(2026, time.November, 20, 12, 0, 0, 0, time.UTC)

func workspace(phase string) *aggregationv1alpha1.CoderWorkspace {
	return &aggregationv1alpha1.CoderWorkspace{
		ObjectMeta: metav1.ObjectMeta{Name: "coder.ada.dev", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}}},
		Status:     aggregationv1alpha1.CoderWorkspaceStatus{Phase: phase},
	}
}

func of(t *testing.T, ws *aggregationv1alpha1.CoderWorkspace, newest time.Time) uint64 {
	t.Helper()
	if err := Set(ws, newest); err != nil {
		t.Fatal(err)
	}
	rv, err := strconv.ParseUint(ws.ResourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return rv
}

func TestSet(t *testing.T) {
	first := of(t, workspace("Running"), at)
	if again := of(t, workspace("Running"), at); again != first {
		t.Errorf("the same object has %d and %d", first, again)
	}
	ws := workspace("Running")
	of(t, ws, at)
	if again := of(t, ws, at); again != first {
		t.Errorf("the resourceVersion goes into itself: %d and %d", first, again)
	}
	if len(ws.ManagedFields) != 1 {
		t.Error("the managed fields are lost")
	}
	if changed := of(t, workspace("Stopped"), at); changed == first {
		t.Error("another object has the same")
	}
	if later := of(t, workspace("Running"), at.Add(time.Second)); later <= first {
		t.Errorf("it fell from %d to %d with time", first, later)
	}
	if list := OfList(at); list < first || list >= 1<<53 {
		t.Errorf("the list has %d, an object %d", list, first)
	}
	if old := of(t, workspace("Running"), time.Time{}); old == 0 {
		t.Error("an object without time has 0, which means any")
	}
	if far := OfList(time.Date(2087, time.January, 1, 0, 0, 0, 0, time.UTC)); far >= 1<<53 {
		t.Errorf("%d does not fit a float64", far)
	}
}
