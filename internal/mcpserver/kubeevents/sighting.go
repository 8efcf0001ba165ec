package kubeevents

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// LastSeen is when it happened last. Which field has it depends on who wrote the
// Event.
func LastSeen(e *corev1.Event) time.Time {
	newest := e.CreationTimestamp.Time
	for _, at := range []time.Time{e.FirstTimestamp.Time, e.LastTimestamp.Time, e.EventTime.Time} {
		if at.After(newest) {
			newest = at
		}
	}
	if e.Series != nil && e.Series.LastObservedTime.After(newest) {
		newest = e.Series.LastObservedTime.Time
	}
	return newest
}

// Count is how often it happened, at least once.
func Count(e *corev1.Event) int32 {
	count := max(e.Count, 1)
	if e.Series != nil {
		count = max(count, e.Series.Count)
	}
	return count
}

// CompareNewestFirst puts the newest first, and those of one time in the order of
// their names.
func CompareNewestFirst(a, b corev1.Event) int {
	return cmp.Or(LastSeen(&b).Compare(LastSeen(&a)), cmp.Compare(a.Name, b.Name))
}
