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
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

func readyFixture(t *testing.T, changes ...func(*coderv1alpha1.CoderControlPlane)) *fixture {
	t.Helper()
	f := newFixture(t, newControlPlane(changes...), databaseSecret())
	f.Settle()
	f.PodsReady(1)
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
	return f
}

func TestDeletionRevokesAndCleansUp(t *testing.T) {
	f := readyFixture(t, withWorkspaceNamespace)
	role := roleName(f.Object())
	if len(f.coder.TokenNames(coderv1alpha1.OperatorUsername)) != 1 {
		t.Fatalf("tokens before: %v", f.coder.TokenNames(coderv1alpha1.OperatorUsername))
	}
	f.Delete()
	f.Reconcile()

	if tokens := f.coder.TokenNames(coderv1alpha1.OperatorUsername); len(tokens) > 0 {
		t.Errorf("tokens that were not revoked: %v", tokens)
	}
	if f.Find("work", role, &rbacv1.Role{}) || f.Find("work", bindingName(newControlPlane()), &rbacv1.RoleBinding{}) {
		t.Error("rights in another namespace outlive the control plane")
	}
	if f.Has("coder", &coderv1alpha1.CoderControlPlane{}) {
		t.Error("the control plane is still there")
	}
	f.Reconcile()
}

func TestAnUnreachableCoderDelaysDeletionForAMinute(t *testing.T) {
	f := readyFixture(t)
	f.coder.Fail(coderdtest.Fault{DropConnection: true})
	f.Delete()

	for _, passed := range []time.Duration{0, 30 * time.Second, 59 * time.Second} {
		f.Clock.SetTime(f.Object().DeletionTimestamp.Add(passed))
		result := f.Reconcile()
		if result.RequeueAfter <= 0 || result.RequeueAfter > 5*time.Second {
			t.Errorf("after %v it looks again after %v", passed, result.RequeueAfter)
		}
		ready := f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, coderv1alpha1.ReasonDeleting)
		if !strings.Contains(ready.Message, "token") {
			t.Errorf("message %q does not say what the deletion waits for", ready.Message)
		}
	}
	f.Clock.SetTime(f.Object().DeletionTimestamp.Add(time.Minute))
	f.Reconcile()

	if f.Has("coder", &coderv1alpha1.CoderControlPlane{}) {
		t.Error("a Coder that does not answer blocks the deletion for good")
	}
	if f.Events.Count("Warning RevocationSkipped") != 1 {
		t.Errorf("Events: %q", f.Events.All())
	}
}

func TestDeletionBeforeCoderEverRanIsImmediate(t *testing.T) {
	f := newFixture(t, newControlPlane(), databaseSecret())
	f.Settle()
	f.coder.Fail(coderdtest.Fault{DropConnection: true})
	f.Delete()
	f.Reconcile()
	if f.Has("coder", &coderv1alpha1.CoderControlPlane{}) {
		t.Error("the control plane is still there")
	}
	if f.Events.Count("Warning") > 0 {
		t.Errorf("Events: %q", f.Events.All())
	}
}

func TestDeletionShowsTheTokenToNobodyElse(t *testing.T) {
	f := readyFixture(t)
	service := &corev1.Service{}
	f.Get("coder", service)
	service.OwnerReferences = nil
	f.Update(service)
	f.coder.ResetRequests()
	f.Delete()
	f.Reconcile()
	if requests := f.coder.Requests(); len(requests) > 0 {
		t.Errorf("requests to a Service of someone else: %v", requests)
	}
	if f.Events.Count("Warning RevocationSkipped") != 1 {
		t.Errorf("Events: %q", f.Events.All())
	}
}

func TestDisabledAccessIsTakenBackAndThenLeftAlone(t *testing.T) {
	f := readyFixture(t)
	cp := f.Object()
	cp.Spec.OperatorAccess.Disabled = true
	f.Update(cp)
	f.Settle()

	if tokens := f.coder.TokenNames(coderv1alpha1.OperatorUsername); len(tokens) > 0 {
		t.Errorf("tokens that were not revoked: %v", tokens)
	}
	f.MustHave(coderv1alpha1.ConditionOperatorAccess, metav1.ConditionFalse, coderv1alpha1.ReasonDisabled)
	f.MustHave(coderv1alpha1.ConditionServed, metav1.ConditionFalse, coderv1alpha1.ReasonDisabled)
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
	status := f.Object().Status
	if status.OperatorAccessReady || status.OperatorTokenSecretRef != nil || status.OperatorTokenExpiresAt != nil {
		t.Errorf("status still speaks of a token: %+v", status)
	}

	f.coder.ResetRequests()
	secrets := 0
	watched := interceptor.NewClient(f.Cluster, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			// The Secret of the database is read for the pods.
			if _, ok := obj.(*corev1.Secret); ok && key.Name != "db" {
				secrets++
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	f.Cluster = watched
	f.restart()
	f.Reconcile()
	if secrets > 0 || len(f.coder.Requests()) > 0 {
		t.Errorf("%d Secrets read and requests %v to a Coder that the operator is kept away from", secrets, f.coder.Requests())
	}
}

func TestAServiceAccountIsDetachedNotDeleted(t *testing.T) {
	f := readyFixture(t)
	cp := f.Object()
	cp.Spec.ServiceAccount.DisableCreate = true
	f.Update(cp)
	f.Settle()
	account := &corev1.ServiceAccount{}
	f.Get("coder", account)
	if metav1.GetControllerOf(account) != nil {
		t.Error("the ServiceAccount is still the control plane's, and would be deleted with it")
	}
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.ServiceAccount.DisableCreate = false })
	f.Settle()
	if f.Get("coder", account); !metav1.IsControlledBy(account, f.Object()) {
		t.Errorf("the ServiceAccount is not taken back: %+v", account.ObjectMeta)
	}
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
}

func TestScalingDownKeepsTheToken(t *testing.T) {
	f := readyFixture(t)
	cp := f.Object()
	cp.Spec.Replicas = ptr.To[int32](0)
	f.Update(cp)
	f.Reconcile()
	d := &appsv1.Deployment{}
	f.Get("coder", d)
	f.PodsReady(0)
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonScaledToZero)
	if status := f.Object().Status; status.OperatorTokenSecretRef == nil || status.ReadyReplicas != 0 {
		t.Errorf("status is %+v", status)
	}
}
