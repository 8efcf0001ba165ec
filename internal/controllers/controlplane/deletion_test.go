package controlplane

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/access"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controlplane/resources"
)

// delete deletes the control plane. The time of the request is the fixture's clock.
func (f *fixture) delete() {
	f.t.Helper()
	cp := f.controlPlane()
	if err := f.cluster.Delete(f.t.Context(), cp); err != nil {
		f.t.Fatal(err)
	}
	f.clock.SetTime(f.controlPlane().DeletionTimestamp.Time)
}

func readyFixture(t *testing.T, changes ...func(*coderv1alpha1.CoderControlPlane)) *fixture {
	t.Helper()
	f := newFixture(t, newControlPlane(changes...), databaseSecret())
	f.settle()
	f.podsReady(1)
	f.settle()
	f.mustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
	return f
}

func TestDeletionRevokesAndCleansUp(t *testing.T) {
	f := readyFixture(t, withWorkspaceNamespace)
	role := resources.WorkspaceRoleName(f.controlPlane())
	if len(f.coder.TokenNames(access.Username)) != 1 {
		t.Fatalf("tokens before: %v", f.coder.TokenNames(access.Username))
	}
	f.delete()
	f.reconcile()

	if tokens := f.coder.TokenNames(access.Username); len(tokens) > 0 {
		t.Errorf("tokens that were not revoked: %v", tokens)
	}
	if !f.gone("work", role, &rbacv1.Role{}) || !f.gone("work", resources.WorkspaceRoleBindingName(newControlPlane()), &rbacv1.RoleBinding{}) {
		t.Error("rights in another namespace outlive the control plane")
	}
	if !f.gone("coder", "coder", &coderv1alpha1.CoderControlPlane{}) {
		t.Error("the control plane is still there")
	}
	f.reconcile()
}

func TestAnUnreachableCoderDelaysDeletionForAMinute(t *testing.T) {
	f := readyFixture(t)
	f.coder.Fail(coderdtest.Fault{DropConnection: true})
	f.delete()

	for _, passed := range []time.Duration{0, 30 * time.Second, 59 * time.Second} {
		f.clock.SetTime(f.controlPlane().DeletionTimestamp.Add(passed))
		result := f.reconcile()
		if result.RequeueAfter <= 0 || result.RequeueAfter > 5*time.Second {
			t.Errorf("after %v it looks again after %v", passed, result.RequeueAfter)
		}
		ready := f.mustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, coderv1alpha1.ReasonDeleting)
		if !strings.Contains(ready.Message, "token") {
			t.Errorf("message %q does not say what the deletion waits for", ready.Message)
		}
	}
	f.clock.SetTime(f.controlPlane().DeletionTimestamp.Add(time.Minute))
	f.reconcile()

	if !f.gone("coder", "coder", &coderv1alpha1.CoderControlPlane{}) {
		t.Error("a Coder that does not answer blocks the deletion for good")
	}
	if f.events.count("Warning RevocationSkipped") != 1 {
		t.Errorf("Events: %q", f.events.all())
	}
}

func TestDeletionBeforeCoderEverRanIsImmediate(t *testing.T) {
	f := newFixture(t, newControlPlane(), databaseSecret())
	f.settle()
	f.coder.Fail(coderdtest.Fault{DropConnection: true})
	f.delete()
	f.reconcile()
	if !f.gone("coder", "coder", &coderv1alpha1.CoderControlPlane{}) {
		t.Error("the control plane is still there")
	}
	if f.events.count("Warning") > 0 {
		t.Errorf("Events: %q", f.events.all())
	}
}

func TestDeletionShowsTheTokenToNobodyElse(t *testing.T) {
	f := readyFixture(t)
	service := &corev1.Service{}
	f.get("coder", "coder", service)
	service.OwnerReferences = nil
	if err := f.cluster.Update(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	f.coder.ResetRequests()
	f.delete()
	f.reconcile()
	if requests := f.coder.Requests(); len(requests) > 0 {
		t.Errorf("requests to a Service of someone else: %v", requests)
	}
	if f.events.count("Warning RevocationSkipped") != 1 {
		t.Errorf("Events: %q", f.events.all())
	}
}

func TestDisabledAccessIsTakenBackAndThenLeftAlone(t *testing.T) {
	f := readyFixture(t)
	cp := f.controlPlane()
	cp.Spec.OperatorAccess.Disabled = true
	if err := f.cluster.Update(t.Context(), cp); err != nil {
		t.Fatal(err)
	}
	f.settle()

	if tokens := f.coder.TokenNames(access.Username); len(tokens) > 0 {
		t.Errorf("tokens that were not revoked: %v", tokens)
	}
	f.mustHave(coderv1alpha1.ConditionOperatorAccess, metav1.ConditionFalse, coderv1alpha1.ReasonDisabled)
	f.mustHave(coderv1alpha1.ConditionServed, metav1.ConditionFalse, coderv1alpha1.ReasonDisabled)
	f.mustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
	status := f.controlPlane().Status
	if status.OperatorAccessReady || status.OperatorTokenSecretRef != nil || status.OperatorTokenExpiresAt != nil {
		t.Errorf("status still speaks of a token: %+v", status)
	}

	f.coder.ResetRequests()
	secrets := 0
	watched := interceptor.NewClient(f.cluster, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			// The Secret of the database is read for the pods.
			if _, ok := obj.(*corev1.Secret); ok && key.Name != "db" {
				secrets++
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	f.cluster = watched
	f.restart()
	f.reconcile()
	if secrets > 0 || len(f.coder.Requests()) > 0 {
		t.Errorf("%d Secrets read and requests %v to a Coder that the operator is kept away from", secrets, f.coder.Requests())
	}
}

func TestAServiceAccountIsDetachedNotDeleted(t *testing.T) {
	f := readyFixture(t)
	cp := f.controlPlane()
	cp.Spec.ServiceAccount.DisableCreate = true
	if err := f.cluster.Update(t.Context(), cp); err != nil {
		t.Fatal(err)
	}
	f.settle()
	account := &corev1.ServiceAccount{}
	f.get("coder", "coder", account)
	if metav1.GetControllerOf(account) != nil {
		t.Error("the ServiceAccount is still the control plane's, and would be deleted with it")
	}
}

func TestScalingDownKeepsTheToken(t *testing.T) {
	f := readyFixture(t)
	cp := f.controlPlane()
	cp.Spec.Replicas = ptr.To[int32](0)
	if err := f.cluster.Update(t.Context(), cp); err != nil {
		t.Fatal(err)
	}
	f.reconcile()
	d := &appsv1.Deployment{}
	f.get("coder", "coder", d)
	f.podsReady(0)
	f.settle()
	f.mustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonScaledToZero)
	if status := f.controlPlane().Status; status.OperatorTokenSecretRef == nil || status.ReadyReplicas != 0 {
		t.Errorf("status is %+v", status)
	}
}
