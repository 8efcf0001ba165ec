package framework

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// withEverything makes the spec ask for every kind of child.
func withEverything(cp *coderv1alpha1.CoderControlPlane) {
	cp.Spec.PodDisruptionBudget = &coderv1alpha1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(1))}
	cp.Spec.NetworkPolicy = &coderv1alpha1.NetworkPolicySpec{}
	cp.Spec.Metrics = coderv1alpha1.MetricsSpec{Enabled: true, ServiceMonitor: &coderv1alpha1.ServiceMonitorSpec{}}
	cp.Spec.Expose = &coderv1alpha1.ExposeSpec{Ingress: &coderv1alpha1.IngressSpec{Host: "coder.example.com"}}
}

func withGateway(cp *coderv1alpha1.CoderControlPlane) {
	cp.Spec.Expose = &coderv1alpha1.ExposeSpec{Gateway: &coderv1alpha1.GatewaySpec{
		Host: "coder.example.com", ParentRefs: []coderv1alpha1.GatewayParentReference{{Name: "edge"}},
	}}
}

func everyChild() map[string]client.Object {
	return map[string]client.Object{
		"coder/budget": &policyv1.PodDisruptionBudget{}, "coder/policy": &networkingv1.NetworkPolicy{},
		"coder/ingress": &networkingv1.Ingress{}, "coder-metrics/service": &corev1.Service{},
		"coder/monitor": &monitoringv1.ServiceMonitor{},
	}
}

func TestEveryChildIsMadeAndGoesWhenItIsNotWanted(t *testing.T) {
	f := newFixture(t, newControlPlane(withEverything))
	f.kinds[ServiceMonitorKind()] = true
	f.Settle()
	for name, obj := range everyChild() {
		name, _, _ := strings.Cut(name, "/")
		f.Get(name, obj)
		if !metav1.IsControlledBy(obj, f.Object()) {
			t.Errorf("%T %s is not the control plane's", obj, name)
		}
	}
	f.MustHave(coderv1alpha1.ConditionExposed, metav1.ConditionTrue, coderv1alpha1.ReasonExposed)
	f.MustHave(coderv1alpha1.ConditionMetricsExported, metav1.ConditionTrue, coderv1alpha1.ReasonMetricsExported)

	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) {
		plain := newControlPlane()
		cp.Spec = plain.Spec
	})
	f.Settle()
	for name, obj := range everyChild() {
		if name, _, _ := strings.Cut(name, "/"); f.Has(name, obj) {
			t.Errorf("%T %s is still there", obj, name)
		}
	}
	all := f.Object().Status.Conditions
	for _, kind := range []string{coderv1alpha1.ConditionExposed, coderv1alpha1.ConditionMetricsExported} {
		if meta.FindStatusCondition(all, kind) != nil {
			t.Errorf("condition %s speaks of what the spec does not ask for", kind)
		}
	}
	f.Get("coder", &corev1.Service{})
	f.Get("coder", &appsv1.Deployment{})
}

func TestNothingOfOthersIsPruned(t *testing.T) {
	other := newControlPlane(func(cp *coderv1alpha1.CoderControlPlane) { cp.Name, cp.UID = "other", "other-uid" })
	byOther := metav1.NewControllerRef(other, coderv1alpha1.GroupVersion.WithKind("CoderControlPlane"))
	plain := *metav1.NewControllerRef(newControlPlane(), coderv1alpha1.GroupVersion.WithKind("CoderControlPlane"))
	plain.Controller = nil
	labels := map[string]string{coderv1alpha1.LabelInstance: "coder", coderv1alpha1.LabelManagedBy: coderv1alpha1.ManagedBy}
	f := newFixture(t, newControlPlane(),
		&networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "coder", Labels: labels}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "others", Labels: labels, OwnerReferences: []metav1.OwnerReference{*byOther}}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "attached", Labels: labels, OwnerReferences: []metav1.OwnerReference{plain}}},
	)
	f.Settle()
	for _, write := range f.TakeWrites() {
		if strings.HasPrefix(write, "delete") {
			t.Error(write)
		}
	}
	f.Get("coder", &networkingv1.Ingress{})
	f.Get("others", &corev1.Service{})
	f.Get("attached", &corev1.Service{})
}

// A Role that was handed over belongs to its user until the operator adopts it, and it adopts only
// one with the name that it wants.
func TestAHandedOverRoleWithAnotherNameIsNotPruned(t *testing.T) {
	meta := metav1.ObjectMeta{
		Namespace: "coder", Name: "of-the-user",
		Labels:      map[string]string{coderv1alpha1.LabelControlPlane: "coder", coderv1alpha1.LabelControlPlaneNamespace: "coder"},
		Annotations: map[string]string{coderv1alpha1.AnnotationAdopt: "CoderControlPlane/coder"},
	}
	f := newFixture(t, newControlPlane(), &rbacv1.Role{ObjectMeta: meta}, &rbacv1.RoleBinding{ObjectMeta: meta})
	f.Settle()
	f.Get("of-the-user", &rbacv1.Role{})
	f.Get("of-the-user", &rbacv1.RoleBinding{})
}

// A conflict resolves without any action. It must not hide an error that does not.
func TestAnErrorBesideAConflictIsNotHidden(t *testing.T) {
	f := newFixture(t, newControlPlane(withEverything))
	f.Settle()
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec = newControlPlane().Spec })
	f.kit.Client = interceptor.NewClient(f.Cluster, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			switch obj.(type) {
			case *networkingv1.Ingress:
				return apierrors.NewForbidden(networkingv1.Resource("ingresses"), "coder", errors.New("no"))
			case *networkingv1.NetworkPolicy:
				return apierrors.NewConflict(networkingv1.Resource("networkpolicies"), "coder", errors.New("changed"))
			}
			return c.Delete(ctx, obj, opts...)
		},
	})
	if _, err := f.Try(); !apierrors.IsForbidden(err) {
		t.Errorf("the pass ends with %v, want the error of the Ingress", err)
	}
	condition := f.MustHave(coderv1alpha1.ConditionResourcesApplied, metav1.ConditionFalse, coderv1alpha1.ReasonApplyFailed)
	if !strings.Contains(condition.Message, `Ingress "coder"`) {
		t.Errorf("message %q does not name the Ingress", condition.Message)
	}
	if f.Has("coder-metrics", &corev1.Service{}) {
		t.Error("the error kept the operator from the other children")
	}
}

// A pod that finishes a job keeps the permissions with which it began.
func TestARenamedServiceAccountOutlivesItsPods(t *testing.T) {
	f := newFixture(t, newControlPlane())
	pod := f.renamedAccount(corev1.PodRunning)
	result := f.Settle()
	f.Get("workspaces", &corev1.ServiceAccount{})
	f.Get("coder", &corev1.ServiceAccount{})
	if got := subjects(f); !slices.Equal(got, []string{"workspaces", "coder"}) {
		t.Errorf("the permissions are granted to %q, want both ServiceAccounts", got)
	}
	if result.RequeueAfter != PollInterval {
		t.Errorf("the next pass is after %v, want %v: no watch reports the end of a pod", result.RequeueAfter, PollInterval)
	}
	f.Remove(pod)
	f.Settle()
	f.mustHaveDropped("coder")
}

// A pod that was evicted stays until the garbage collector of pods removes it, and runs nothing.
func TestARenamedServiceAccountIsRemovedWithAFinishedPod(t *testing.T) {
	for _, phase := range []corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded} {
		f := newFixture(t, newControlPlane())
		f.renamedAccount(phase)
		f.Settle()
		f.mustHaveDropped("coder")
	}
}

// A rollout that is stuck keeps no permission for a ServiceAccount that no pod uses.
func TestASubjectThatNoPodUsesIsRemoved(t *testing.T) {
	f := newFixture(t, newControlPlane())
	f.Settle()
	d := f.Deployment()
	d.Status.Replicas, d.Status.UpdatedReplicas = 2, 1
	f.UpdateStatus(d)
	bindings := &rbacv1.RoleBindingList{}
	f.List(bindings)
	binding := &bindings.Items[0]
	binding.Subjects = append(binding.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "other", Namespace: "coder"})
	if err := f.Cluster.Update(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	f.Settle()
	if got := subjects(f); !slices.Equal(got, []string{"coder"}) {
		t.Errorf("the permissions are granted to %q, want the ServiceAccount of the spec alone", got)
	}
}

// A Deployment that was scaled to 0 and cannot be updated creates its next pods with the earlier account.
func TestARenamedServiceAccountOutlivesADeploymentThatUsesIt(t *testing.T) {
	f := newFixture(t, newControlPlane())
	f.Settle()
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Spec.ServiceAccount.Name = "workspaces"
		cp.Spec.PodTemplate = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever}}
	})
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionResourcesApplied, metav1.ConditionFalse, coderv1alpha1.ReasonInvalidSpec)
	f.Get("coder", &corev1.ServiceAccount{})
}

// renamedAccount creates a pod in a phase and changes the name of the ServiceAccount.
func (f *fixture) renamedAccount(phase corev1.PodPhase) *corev1.Pod {
	f.Settle()
	f.PodsReady(1)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "old", Labels: f.Deployment().Spec.Selector.MatchLabels},
		Spec:       corev1.PodSpec{ServiceAccountName: "coder"},
		Status:     corev1.PodStatus{Phase: phase},
	}
	f.Create(pod)
	f.Settle()
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.ServiceAccount.Name = "workspaces" })
	f.Settle()
	f.PodsReady(1)
	return pod
}

// mustHaveDropped checks that a ServiceAccount and its permissions are gone.
func (f *fixture) mustHaveDropped(account string) {
	f.T.Helper()
	if f.Has(account, &corev1.ServiceAccount{}) {
		f.T.Errorf("the ServiceAccount %q is still there", account)
	}
	if got := subjects(f); !slices.Equal(got, []string{"workspaces"}) {
		f.T.Errorf("the permissions are granted to %q, want the new ServiceAccount alone", got)
	}
}

// subjects returns the names of the ServiceAccounts to which the permissions for workspaces are granted.
func subjects(f *fixture) (names []string) {
	bindings := &rbacv1.RoleBindingList{}
	f.List(bindings)
	for _, binding := range bindings.Items {
		for _, subject := range binding.Subjects {
			names = append(names, subject.Name)
		}
	}
	return names
}

func TestExposureMovesFromIngressToGatewayAsSoonAsTheClusterKnowsIt(t *testing.T) {
	f := newFixture(t, newControlPlane(withEverything))
	f.kinds[ServiceMonitorKind()] = true
	f.Settle()
	f.Edit(withGateway)
	f.Settle()
	condition := f.MustHave(coderv1alpha1.ConditionExposed, metav1.ConditionFalse, coderv1alpha1.ReasonKindMissing)
	if !strings.Contains(condition.Message, "gateway.networking.k8s.io/v1 HTTPRoute") || !strings.Contains(condition.Message, "without a restart") {
		t.Errorf("message %q names neither the kind nor the remedy", condition.Message)
	}
	f.MustHave(coderv1alpha1.ConditionResourcesApplied, metav1.ConditionTrue, coderv1alpha1.ReasonApplied)
	if f.Has("coder", &networkingv1.Ingress{}) {
		t.Error("the Ingress is still there")
	}

	f.kinds[HTTPRouteKind()] = true
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionExposed, metav1.ConditionTrue, coderv1alpha1.ReasonExposed)
	route := &gatewayv1.HTTPRoute{}
	f.Get("coder", route)

	refusal := metav1.Condition{Type: string(gatewayv1.RouteConditionAccepted), Status: metav1.ConditionFalse, Reason: "NotAllowedByListeners", Message: "no"}
	route.Status.Parents = []gatewayv1.RouteParentStatus{{ParentRef: gatewayv1.ParentReference{Name: "edge"}, Conditions: []metav1.Condition{refusal}}}
	f.UpdateStatus(route)
	f.Settle()
	condition = f.MustHave(coderv1alpha1.ConditionExposed, metav1.ConditionFalse, coderv1alpha1.ReasonRouteRefused)
	if !strings.Contains(condition.Message, `Gateway "edge"`) {
		t.Errorf("message %q does not name the Gateway", condition.Message)
	}
	f.Get("coder", route)
	accepted := metav1.Condition{Type: string(gatewayv1.RouteConditionAccepted), Status: metav1.ConditionTrue, Reason: "Accepted"}
	route.Status.Parents = append(route.Status.Parents,
		gatewayv1.RouteParentStatus{ParentRef: gatewayv1.ParentReference{Name: "other"}, Conditions: []metav1.Condition{accepted}})
	f.UpdateStatus(route)
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionExposed, metav1.ConditionTrue, coderv1alpha1.ReasonExposed)

	f.Edit(withEverything)
	f.Settle()
	if f.Has("coder", &gatewayv1.HTTPRoute{}) {
		t.Error("the HTTPRoute is still there")
	}
}

func TestAMissingServiceMonitorKindStopsNothing(t *testing.T) {
	f := newFixture(t, newControlPlane(withEverything))
	f.Settle()
	f.PodsReady(1)
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionMetricsExported, metav1.ConditionFalse, coderv1alpha1.ReasonKindMissing)
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
}

// The cluster may serve a kind again between the step that applies the object and StepPrune.
func TestAKindThatAppearsDuringAPassIsNotPruned(t *testing.T) {
	f := newFixture(t, newControlPlane(withEverything))
	f.kinds[ServiceMonitorKind()] = true
	f.Settle()
	f.kinds[ServiceMonitorKind()] = false
	f.Settle()
	f.kinds[ServiceMonitorKind()] = true
	if err := f.kit.Prune(t.Context(), f.last); err != nil {
		t.Fatal(err)
	}
	f.Get("coder", &monitoringv1.ServiceMonitor{})
}

func TestReplicasOfOthersAreLeftAlone(t *testing.T) {
	f := newFixture(t, newControlPlane())
	f.Settle()
	scaled := f.Deployment()
	scaled.Spec.Replicas = ptr.To[int32](4)
	if err := f.Cluster.Update(t.Context(), scaled, client.FieldOwner("kube-controller-manager")); err != nil {
		t.Fatal(err)
	}
	f.Settle()
	if got := *f.Deployment().Spec.Replicas; got != 4 {
		t.Fatalf("%d replicas, although an autoscaler asked for 4", got)
	}
	f.PodsReady(1)
	f.Settle()
	condition := f.MustHave(coderv1alpha1.ConditionDeploymentAvailable, metav1.ConditionFalse, coderv1alpha1.ReasonProgressing)
	if condition.Message != "1 of 4 pods are ready" {
		t.Errorf("message is %q", condition.Message)
	}

	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.Replicas = ptr.To[int32](2) })
	f.Settle()
	if got := *f.Deployment().Spec.Replicas; got != 2 {
		t.Errorf("%d replicas, although the spec changed to 2", got)
	}
}

func TestWhatOthersAddToThePodsSurvives(t *testing.T) {
	f := newFixture(t, newControlPlane())
	f.Settle()
	d := f.Deployment()
	if d.Spec.Template.Annotations == nil {
		d.Spec.Template.Annotations = map[string]string{}
	}
	d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] = "2026-11-21T12:00:00Z"
	d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "injected", Image: "sidecar"})
	d.Labels["team"] = "a"
	if err := f.Cluster.Update(t.Context(), d, client.FieldOwner("kubectl")); err != nil {
		t.Fatal(err)
	}
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.Image = "ghcr.io/coder/coder:v2.30.1" })
	f.Settle()

	d = f.Deployment()
	names := []string{}
	for _, container := range d.Spec.Template.Spec.Containers {
		names = append(names, container.Name+" "+container.Image)
	}
	if !slices.Contains(names, "injected sidecar") || !slices.Contains(names, "coder ghcr.io/coder/coder:v2.30.1") {
		t.Errorf("containers are %q", names)
	}
	if d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] == "" || d.Labels["team"] != "a" {
		t.Errorf("annotations %v and labels %v", d.Spec.Template.Annotations, d.Labels)
	}
}

func TestAPodTemplateThatDoesNotFitIsToldAndNotRetried(t *testing.T) {
	f := newFixture(t, newControlPlane(func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Spec.PodTemplate = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever}}
	}))
	_, err := f.Try()
	if err != nil {
		t.Fatal(err)
	}
	if f.last.Deployment != nil {
		t.Error("a Deployment is made of it")
	}
	condition := f.MustHave(coderv1alpha1.ConditionStalled, metav1.ConditionTrue, coderv1alpha1.ReasonInvalidSpec)
	if !strings.Contains(condition.Message, "spec.podTemplate.spec.restartPolicy") {
		t.Errorf("message %q does not name the field", condition.Message)
	}
}

func TestNamespacesThatTheOperatorDoesNotWorkIn(t *testing.T) {
	f := newFixture(t, newControlPlane(func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Spec.RBAC.WorkspaceNamespaces = []string{"elsewhere"}
	}))
	f.options.Namespaces = []string{"coder", "team"}
	f.restart()
	f.Settle()
	condition := f.MustHave(coderv1alpha1.ConditionWorkspaceAccess, metav1.ConditionFalse, coderv1alpha1.ReasonNamespaceNotWatched)
	if !strings.Contains(condition.Message, `"elsewhere"`) || !strings.Contains(condition.Message, "--watch-namespaces") {
		t.Errorf("message is %q", condition.Message)
	}
	roles := &rbacv1.RoleList{}
	f.List(roles)
	if len(roles.Items) != 1 || roles.Items[0].Namespace != "coder" {
		t.Errorf("roles are %v", roles.Items)
	}

	// Before a restart with fewer namespaces, the operator may have granted permissions there.
	if !strings.Contains(condition.Message, "coder.com/control-plane=coder") {
		t.Errorf("message %q does not say what to delete", condition.Message)
	}
	f.Delete()
	f.Reconcile()
	if !f.Gone() || f.Events.Count("Warning GrantsLeftBehind") != 1 {
		t.Errorf("gone: %t, Events: %q", f.Gone(), f.Events.All())
	}
}
