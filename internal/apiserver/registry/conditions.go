package registry

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/log"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

const (
	// MaxMessage limits the message of a condition, in bytes.
	MaxMessage = 8 << 10
	// NoReason is the reason of a failed build for which Coder reports none.
	NoReason = "Coder reported no reason"
)

// Verdict holds the status, reason and message of a condition.
type Verdict struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

// True returns a verdict with status True.
func True(reason, message string) Verdict { return Verdict{metav1.ConditionTrue, reason, message} }

// False returns a verdict with status False.
func False(reason, message string) Verdict { return Verdict{metav1.ConditionFalse, reason, message} }

// Unknown returns a verdict with status Unknown.
func Unknown(reason, message string) Verdict {
	return Verdict{metav1.ConditionUnknown, reason, message}
}

// Condition returns the condition of a verdict, without its times.
func (v Verdict) Condition(kind string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: v.Status, Reason: v.Reason, Message: redaction.Truncate(v.Message, MaxMessage)}
}

// AppendCondition appends the condition of a verdict. If its status is the same as before, it keeps
// its transition time. Otherwise its transition time is changedAt.
func AppendCondition(all, before []metav1.Condition, kind string, v Verdict, observed int64, changedAt metav1.Time) []metav1.Condition {
	c := v.Condition(kind)
	c.ObservedGeneration, c.LastTransitionTime = observed, changedAt
	if old := meta.FindStatusCondition(before, kind); old != nil && old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	return append(all, c)
}

// UnreachableCondition returns the condition Synced if it reports that the object has its last known state, because
// Coder is not available or the object cannot be read, or nil.
func UnreachableCondition(conditions []metav1.Condition) *metav1.Condition {
	c := meta.FindStatusCondition(conditions, aggregationv1alpha1.ConditionSynced)
	if c == nil || c.Reason != aggregationv1alpha1.ReasonCoderUnreachable && c.Reason != aggregationv1alpha1.ReasonReadFailed {
		return nil
	}
	return c
}

// Observe marks the generation of an object as observed in its conditions.
func (b *Base[T]) Observe(obj T) {
	conditions := *b.Conditions(obj)
	for i := range conditions {
		conditions[i].ObservedGeneration = obj.GetGeneration()
	}
}

// Unreachable implements mirror.Kind.
func (b *Base[T]) Unreachable(previous records.Object, since time.Time, message string) records.Object {
	return b.lastKnown(previous, since, False(aggregationv1alpha1.ReasonCoderUnreachable, "Coder is not available, so this is the last known state: "+message))
}

// Unreadable implements mirror.Kind.
func (b *Base[T]) Unreadable(previous records.Object, since time.Time, message string) records.Object {
	return b.lastKnown(previous, since, False(aggregationv1alpha1.ReasonReadFailed, "the operator cannot read this object, so this is the last known state: "+message))
}

// lastKnown returns a copy of the object with the condition Synced, or nil if that has the reason already.
func (b *Base[T]) lastKnown(previous records.Object, since time.Time, v Verdict) records.Object {
	obj, ok := previous.(T)
	var none T
	if !ok || obj == none {
		return nil
	}
	if shown := UnreachableCondition(*b.Conditions(obj)); shown != nil && shown.Reason == v.Reason {
		return nil
	}
	c := v.Condition(aggregationv1alpha1.ConditionSynced)
	// The spec of the object has not changed since its conditions were set.
	if before := meta.FindStatusCondition(*b.Conditions(obj), aggregationv1alpha1.ConditionSynced); before != nil {
		c.ObservedGeneration = before.ObservedGeneration
	}
	// The transition time changes only with the status.
	c.LastTransitionTime = Seconds(since)
	changed := obj.DeepCopyObject().(T)
	meta.SetStatusCondition(b.Conditions(changed), c)
	return changed
}

// Unrecovered implements mirror.Kind.
func (b *Base[T]) Unrecovered(previous, next records.Object) records.Object {
	was, isT := previous.(T)
	if !isT {
		return nil
	}
	c := UnreachableCondition(*b.Conditions(was))
	if c == nil || c.Reason != aggregationv1alpha1.ReasonCoderUnreachable {
		return nil
	}
	out := next.DeepCopyObject().(T)
	meta.SetStatusCondition(b.Conditions(out), *c)
	return out
}

// ShowDeletion replaces the conditions Ready and Reconciling of an object whose deletion is recorded. The message lists what
// must happen first: required, if it is set, and the removal of the finalizers. happens is what Coder will do with the object.
// before are the previous conditions.
func (b *Base[T]) ShowDeletion(obj T, before []metav1.Condition, happens, required string) {
	var waits []string
	if required != "" {
		waits = append(waits, required)
	}
	if finalizers := obj.GetFinalizers(); len(finalizers) > 0 {
		waits = append(waits, "these finalizers are removed: "+strings.Join(finalizers, ", "))
	}
	message := "the " + b.InCoder + " will be " + happens + " in Coder"
	if len(waits) > 0 {
		message += " after " + strings.Join(waits, ", and after ")
	}
	show := func(kind string, v Verdict) {
		if c := meta.FindStatusCondition(*b.Conditions(obj), kind); c != nil {
			*c = AppendCondition(nil, before, kind, v, c.ObservedGeneration, Seconds(b.Clock.Now()))[0]
		}
	}
	show(aggregationv1alpha1.ConditionReady, False(aggregationv1alpha1.ReasonDeleting, message))
	show(aggregationv1alpha1.ConditionReconciling, True(aggregationv1alpha1.ReasonDeleting, message))
}

// WorkspacesDeleted describes, for ShowDeletion, that Coder requires that the workspaces which use an object are deleted. It
// returns "" if there are none. It does not call Coder. It names none, because not everybody who may read the object may read
// them.
func (b *Base[T]) WorkspacesDeleted(obj T, uses func(aggregationv1alpha1.CoderWorkspaceStatus) bool) string {
	if b.Workspaces == nil {
		return ""
	}
	n := 0
	for _, ws := range b.Workspaces(metadata.ControlPlaneOf(obj)) {
		if uses(ws.Status) {
			n++
		}
	}
	switch n {
	case 0:
		return ""
	case 1:
		return "its workspace is deleted"
	}
	return fmt.Sprintf("its %d workspaces are deleted", n)
}

// causeWithin is the maximum difference between the end of a failed build whose log is read, by Coder's clock, and now. Without
// it, the first sync of a Coder deployment with many failed builds would read many logs.
const causeWithin = 24 * time.Hour

// MaxBuilds limits how many builds a cache remembers. A finished build never changes. A cache only
// bridges the time until the cached value is stored in an object or its record.
const MaxBuilds = 1024

// Causes finds the error of Terraform for builds whose error in Coder is only an exit status. It is
// safe for concurrent use.
type Causes struct {
	clock clock.PassiveClock
	// known maps builds to the error of Terraform. The error is empty if the log has none.
	known *lru.Cache
}

// NewCauses returns Causes with an empty cache.
func NewCauses(c clock.PassiveClock) *Causes { return &Causes{clock: c, known: lru.New(MaxBuilds)} }

// Learn reads the log of a failed build once, if Coder does not report why it failed.
func (c *Causes) Learn(ctx context.Context, build uuid.UUID, reported string, ended time.Time,
	read func(context.Context, uuid.UUID) (string, error),
) {
	if _, known := c.known.Get(build); known || !strings.Contains(reported, "exit status") || c.clock.Since(ended).Abs() > causeWithin {
		return
	}
	cause, err := read(ctx, build)
	if err != nil {
		log.FromContext(ctx).V(1).Info("Could not read the log of a failed build for the error of Terraform", "id", build, "reason", err.Error())
		return
	}
	c.known.Add(build, cause)
}

// Get returns the error of Terraform, and "" if it is not known.
func (c *Causes) Get(build uuid.UUID) string {
	known, _ := c.known.Get(build)
	cause, _ := known.(string)
	return cause
}
