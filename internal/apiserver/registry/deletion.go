package registry

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
)

// ShowDeletion replaces the conditions Ready and Reconciling of an object whose deletion is recorded. Their message says what
// happens in Coder, and what that waits for: required, unless it is empty, and the finalizers. before are the conditions before.
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
