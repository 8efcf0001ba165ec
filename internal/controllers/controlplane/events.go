package controlplane

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/access"
	"github.com/coder-k8s/coder-k8s/internal/kube/conditions"
)

const (
	// actionReconcile is what the operator was doing when something was worth an
	// Event.
	actionReconcile = "Reconcile"
	// longestNote is what the API server takes.
	longestNote = 1024
)

// quietReasons are those of states that pass by themselves.
var quietReasons = []string{
	coderv1alpha1.ReasonWaiting, coderv1alpha1.ReasonProgressing, coderv1alpha1.ReasonReconciling,
	coderv1alpha1.ReasonNotChecked, coderv1alpha1.ReasonDisabled, coderv1alpha1.ReasonAdminJobRunning,
	coderv1alpha1.ReasonDeleting,
}

// tellChanges makes an Event of each condition that came to hold, and of each
// that fails for another reason than before. Ready has the reason of a part, and
// only tells when everything works.
func (r *Reconciler) tellChanges(s *scope, before, after []metav1.Condition) {
	for _, c := range conditions.Changed(before, after) {
		switch {
		case c.Type == coderv1alpha1.ConditionReconciling, c.Type == coderv1alpha1.ConditionStalled:
		case c.Status == metav1.ConditionTrue:
			r.tell(s, corev1.EventTypeNormal, c.Reason, c.Message)
		case c.Status == metav1.ConditionFalse && c.Type != coderv1alpha1.ConditionReady && !slices.Contains(quietReasons, c.Reason):
			r.tell(s, corev1.EventTypeWarning, c.Reason, c.Message)
		}
	}
}

// tellAccess passes on what changed about the operator's access, whatever else
// comes of the pass.
func (r *Reconciler) tellAccess(s *scope, result access.Result) {
	for _, event := range result.Events {
		r.tell(s, event.Type, event.Reason, redact(event.Message, nil))
	}
}

func (r *Reconciler) tellSkipped(s *scope, why string) {
	r.tell(s, corev1.EventTypeWarning, coderv1alpha1.ReasonRevocationSkipped,
		"the control plane is deleted without revoking the operator's token in Coder, which runs out by itself: "+why)
}

func (r *Reconciler) tell(s *scope, eventType, reason, note string) {
	if len(note) > longestNote {
		note = strings.ToValidUTF8(note[:longestNote], "")
	}
	r.recorder.Eventf(s.cp, nil, eventType, reason, actionReconcile, "%s", note)
}
