package workspaceproxy

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
)

// findControlPlane reads the control plane that the spec names. A missing control plane does not
// fail the step: a condition reports it.
func (r *Reconciler) findControlPlane(ctx context.Context, s *scope) (err error) {
	s.controlPlane, err = r.kit.ControlPlane(ctx, s.proxy.Namespace, s.proxy.Spec.ControlPlaneRef)
	return err
}

// accessURL returns the access URL of the Coder that the spec names, or an empty string if it is
// unknown.
func (s *scope) accessURL() string {
	spec := s.proxy.Spec
	url := spec.PrimaryAccessURL
	switch {
	case s.controlPlane != nil:
		url = cmp.Or(url, s.controlPlane.Status.AccessURL, s.controlPlane.Status.URL)
	case spec.ControlPlaneRef == nil:
		url = cmp.Or(url, spec.Bootstrap.CoderURL)
	}
	return url
}

func controlPlaneReady(s *scope) *metav1.Condition {
	const kind = coderv1alpha1.ConditionControlPlaneReady
	ref, cp := s.proxy.Spec.ControlPlaneRef, s.controlPlane
	if ref == nil {
		return nil
	}
	no := func(reason, message string) *metav1.Condition {
		return new(framework.ConditionFalse(kind, reason, message))
	}
	switch {
	case cp == nil && !s.Outcome.Succeeded(stepControlPlane):
		return new(framework.ConditionUnknown(kind, coderv1alpha1.ReasonReconciling, "the control plane is not checked yet"))
	case cp == nil:
		return no(coderv1alpha1.ReasonControlPlaneUnavailable, fmt.Sprintf(
			"there is no CoderControlPlane %q in namespace %q; create it, or correct spec.controlPlaneRef", ref.Name, s.proxy.Namespace))
	case !cp.DeletionTimestamp.IsZero():
		return no(coderv1alpha1.ReasonControlPlaneUnavailable, fmt.Sprintf("CoderControlPlane %q is being deleted", ref.Name))
	case cp.Spec.OperatorAccess.Disabled:
		return no(coderv1alpha1.ReasonOperatorAccessDisabled, fmt.Sprintf(
			"spec.operatorAccess.disabled of CoderControlPlane %q is set, so the operator cannot call it; unset it, "+
				"or give spec.proxySessionTokenSecretRef instead of spec.controlPlaneRef", ref.Name))
	case cp.Status.URL == "":
		return no(coderv1alpha1.ReasonControlPlaneUnavailable, fmt.Sprintf("CoderControlPlane %q has no URL yet", ref.Name))
	case !cp.Status.OperatorAccessReady, cp.Status.OperatorTokenSecretRef == nil:
		return no(coderv1alpha1.ReasonOperatorAccessNotReady, fmt.Sprintf("the operator has no access to CoderControlPlane %q yet", ref.Name))
	}
	return new(framework.ConditionTrue(kind, coderv1alpha1.ReasonControlPlaneAvailable, fmt.Sprintf("the operator has access to CoderControlPlane %q", ref.Name)))
}

// affectsProxies reports whether an update of a control plane changes something that its proxies use.
func affectsProxies(e event.UpdateEvent) bool {
	used := func(obj client.Object) []any {
		cp := obj.(*coderv1alpha1.CoderControlPlane)
		return []any{
			cp.Status.URL, cp.Status.AccessURL, cp.Status.Image, cp.Status.WorkspaceProxyEntitlement, cp.Status.OperatorAccessReady,
			cp.Status.OperatorTokenSecretRef, cp.Spec.OperatorAccess.Disabled, cp.DeletionTimestamp.IsZero(),
		}
	}
	return !equality.Semantic.DeepEqual(used(e.ObjectOld), used(e.ObjectNew))
}
