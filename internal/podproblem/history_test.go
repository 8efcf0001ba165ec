package podproblem

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSightings(t *testing.T) {
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) metav1.Time { return metav1.NewTime(noon.Add(time.Duration(minutes) * time.Minute)) }
	micro := func(minutes int) metav1.MicroTime { return metav1.NewMicroTime(at(minutes).Time) }
	for name, tt := range map[string]struct {
		event corev1.Event
		seen  int
		count int32
	}{
		"only created":        {corev1.Event{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(1)}}, 1, 1},
		"of the core API":     {corev1.Event{FirstTimestamp: at(1), LastTimestamp: at(5), Count: 7}, 5, 7},
		"of the events API":   {corev1.Event{EventTime: micro(2)}, 2, 1},
		"a series":            {corev1.Event{EventTime: micro(2), Series: &corev1.EventSeries{Count: 12, LastObservedTime: micro(9)}}, 9, 12},
		"a series without it": {corev1.Event{EventTime: micro(2), Count: 3, Series: &corev1.EventSeries{}}, 2, 3},
	} {
		if got := EventTime(&tt.event); !got.Equal(at(tt.seen).Time) || EventCount(&tt.event) != tt.count {
			t.Errorf("%s: at %s, %d times", name, got, EventCount(&tt.event))
		}
	}
}

func TestNewestFirst(t *testing.T) {
	named := func(name string, second int64) corev1.Event {
		return corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name}, LastTimestamp: metav1.Unix(second, 0)}
	}
	all := []corev1.Event{named("old", 1), named("b", 2), named("a", 2), named("new", 3)}
	slices.SortFunc(all, CompareEvents)
	order := ""
	for _, e := range all {
		order += e.Name + " "
	}
	if want := "new a b old "; order != want {
		t.Errorf("%q, want %q", order, want)
	}
}
