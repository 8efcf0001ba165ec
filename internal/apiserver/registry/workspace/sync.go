package workspace

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
)

// isUnreachable reports whether condition Synced has the reason CoderUnreachable.
func isUnreachable(c *metav1.Condition) bool {
	return c.Reason == aggregationv1alpha1.ReasonCoderUnreachable
}

// WithSync implements mirror.Kind.
func (k *Kind) WithSync(previous records.Object, reachable bool, since time.Time, message string) records.Object {
	ws, ok := previous.(*aggregationv1alpha1.CoderWorkspace)
	if !ok || ws == nil {
		return nil
	}
	c := meta.FindStatusCondition(ws.Status.Conditions, aggregationv1alpha1.ConditionSynced)
	if reachable == (c == nil || !isUnreachable(c)) {
		return nil
	}
	v := verdict{metav1.ConditionFalse, aggregationv1alpha1.ReasonCoderUnreachable, "Coder cannot be asked, this is what it last told: " + orUnknown(message)}
	if reachable {
		record, _ := k.config.Records.Get(controlPlaneOf(ws), ws.UID)
		// An unreadable record is reported by Object.
		n, _ := notesOf(record)
		v = syncedVerdict(n)
	}
	now := newCondition(aggregationv1alpha1.ConditionSynced, v)
	now.ObservedGeneration = ws.Status.ObservedGeneration
	now.LastTransitionTime = registry.Seconds(since)
	if c != nil && c.Status == now.Status {
		now.LastTransitionTime = c.LastTransitionTime
	}
	out := ws.DeepCopy()
	meta.SetStatusCondition(&out.Status.Conditions, now)
	return out
}
