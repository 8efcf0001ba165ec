package podproblem

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
)

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
