package controlplane

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// TestTheServiceStaysUntilTheTokenIsRevoked covers an edit that disables the access and the Service
// at the same time. The operator needs the Service to revoke the token.
func TestTheServiceStaysUntilTheTokenIsRevoked(t *testing.T) {
	f := readyFixture(t)
	recover := f.coder.Fail(coderdtest.Fault{DropConnection: true})
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Spec.OperatorAccess.Disabled, cp.Spec.Service.Enabled = true, ptr.To(false)
	})
	f.PodsReady(1)
	for range 3 {
		f.Reconcile()
	}
	f.MustHave(coderv1alpha1.ConditionOperatorAccess, metav1.ConditionFalse, coderv1alpha1.ReasonUnreachable)
	if !f.Has("coder", &corev1.Service{}) {
		t.Fatal("the Service is gone, and the token is not revoked")
	}
	recover()
	f.live()
	f.MustHave(coderv1alpha1.ConditionOperatorAccess, metav1.ConditionFalse, coderv1alpha1.ReasonDisabled)
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
	if tokens := f.coder.TokenNames(coderv1alpha1.OperatorUsername); len(tokens) > 0 || f.Has("coder", &corev1.Service{}) {
		t.Errorf("tokens %v, and the Service may be there", tokens)
	}
}
