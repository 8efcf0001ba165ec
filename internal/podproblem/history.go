package podproblem

import (
	"cmp"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// EventTime returns the time of the last occurrence. The field with that time depends on the
// client that created the Event.
func EventTime(e *corev1.Event) time.Time {
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

// EventCount returns the number of occurrences, at least 1.
func EventCount(e *corev1.Event) int32 {
	count := max(e.Count, 1)
	if e.Series != nil {
		count = max(count, e.Series.Count)
	}
	return count
}

// CompareEvents sorts Events by EventTime, newest first, and then by name.
func CompareEvents(a, b corev1.Event) int {
	return cmp.Or(EventTime(&b).Compare(EventTime(&a)), cmp.Compare(a.Name, b.Name))
}

// RevisionAnnotation is the annotation in which the Deployment controller counts revisions.
const RevisionAnnotation = "deployment.kubernetes.io/revision"

// NewestReplicaSet returns the ReplicaSet with the newest revision, or nil.
func NewestReplicaSet(sets []appsv1.ReplicaSet) *appsv1.ReplicaSet {
	var newest *appsv1.ReplicaSet
	highest := -1
	for i := range sets {
		revision, err := strconv.Atoi(sets[i].Annotations[RevisionAnnotation])
		if err != nil {
			revision = 0
		}
		if revision > highest {
			newest, highest = &sets[i], revision
		}
	}
	return newest
}

// JobEnd returns how a Job ended: Complete or Failed. It returns an empty string while the Job runs.
func JobEnd(job *batchv1.Job) batchv1.JobConditionType {
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return c.Type
		}
	}
	return ""
}
