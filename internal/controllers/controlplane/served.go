package controlplane

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metadatav1alpha1 "github.com/coder-k8s/coder-k8s/api/metadata/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
)

// readMirror reads whether the aggregated API has the objects of the control plane. Without a
// CoderMirrorState, which exists a second after the control plane, no replica runs the aggregated API. The
// CoderMirrorState may be that of an earlier control plane of the same name. A control plane that was
// served stays served while Coder or the aggregated API does not respond.
func (r *Reconciler) readMirror(ctx context.Context, s *scope) error {
	state := &metadatav1alpha1.CoderMirrorState{}
	err := r.kit.Client.Get(ctx, client.ObjectKeyFromObject(s.cp), state)
	uid := state.Spec.ControlPlaneUID
	unread := !state.Spec.Seen || uid != "" && uid != s.cp.UID
	if err == nil && unread && !meta.IsStatusConditionTrue(s.Previous.Conditions, coderv1alpha1.ConditionServed) {
		s.unread = &state.Spec
	}
	return client.IgnoreNotFound(err)
}

func served(s *scope, status *coderv1alpha1.CoderControlPlaneStatus) metav1.Condition {
	const kind = coderv1alpha1.ConditionServed
	switch {
	case s.accessDisabled():
		return workload.ConditionFalse(kind, coderv1alpha1.ReasonDisabled, "spec.operatorAccess.disabled is set")
	case status.ObjectNamePrefix == nil:
		return workload.ConditionFalse(kind, coderv1alpha1.ReasonWaiting, "waiting until status.objectNamePrefix is set")
	case !status.OperatorAccessReady:
		return workload.ConditionFalse(kind, coderv1alpha1.ReasonWaiting, "waiting for the operator's access to Coder; see the condition OperatorAccess")
	case s.unread != nil:
		message := "waiting until the aggregated API has read the templates and workspaces for the first time"
		if s.unread.Message != "" {
			message += ": " + workload.Redact(s.unread.Message)
		}
		return workload.ConditionFalse(kind, coderv1alpha1.ReasonWaiting, message)
	case *status.ObjectNamePrefix == "":
		return workload.ConditionTrue(kind, coderv1alpha1.ReasonServed, "templates and workspaces are served; their names have no prefix")
	}
	return workload.ConditionTrue(kind, coderv1alpha1.ReasonServed,
		fmt.Sprintf("templates and workspaces are served; their names have the prefix %q", *status.ObjectNamePrefix))
}
