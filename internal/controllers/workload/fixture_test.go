package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controlplane/resources"
	workloadresources "github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply/applytest"
	"github.com/coder-k8s/coder-k8s/internal/kube/conditions"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/kube/steps"
)

// plane is the scope of a kind that has only the shared steps.
type plane struct {
	Pass
	cp *coderv1alpha1.CoderControlPlane
}

func planeKind() Kind {
	return Kind{
		Name: "CoderControlPlane", Noun: "control plane", Finalizer: "test.coder.com/finalizer",
		OwnerLabel: coderv1alpha1.LabelControlPlane, OwnerNamespaceLabel: coderv1alpha1.LabelControlPlaneNamespace,
	}
}

// fixture runs the shared steps against a fake cluster. It records uncached reads.
type fixture struct {
	t       testing.TB
	cluster client.WithWatch
	kit     *Toolkit
	clock   *clocktesting.FakePassiveClock
	kinds   kindList
	logs    *fakeLogs
	options Options

	mu     sync.Mutex
	writes []string
	reads  []string
	events []string
}

type kindList map[schema.GroupVersionKind]bool

func (k kindList) Has(kind schema.GroupVersionKind) bool { return k[kind] }

// knownKinds is the scheme of the fake cluster.
var knownKinds = applytest.KindsOf(clientgoscheme.AddToScheme, coderv1alpha1.AddToScheme, gatewayv1.Install, monitoringv1.AddToScheme)

func newFixture(t testing.TB, objects ...client.Object) *fixture {
	t.Helper()
	f := &fixture{
		t: t, kinds: kindList{}, logs: &fakeLogs{},
		clock: clocktesting.NewFakePassiveClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)),
	}
	b := knownKinds.Cluster(t).WithReturnManagedFields().
		WithStatusSubresource(&coderv1alpha1.CoderControlPlane{}, &appsv1.Deployment{}).
		WithObjects(objects...).WithInterceptorFuncs(f.writeCounter()).
		WithIndex(&coderv1alpha1.CoderControlPlane{}, IndexReferences, indexReferences(func(obj client.Object) []workloadresources.Reference {
			return ReferencesOf(resources.Workload(obj.(*coderv1alpha1.CoderControlPlane), resources.Inputs{}))
		}))
	for _, child := range Children() {
		b = b.WithIndex(child, IndexController, ControllerOf)
	}
	for _, child := range OptionalChildren() {
		b = b.WithIndex(child, IndexController, ControllerOf)
	}
	f.cluster = b.Build()
	f.restart()
	return f
}

// restart creates a new Toolkit with empty state, like a new process.
func (f *fixture) restart() {
	live := interceptor.NewClient(f.cluster, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			f.note(&f.reads, fmt.Sprintf("%T %s", obj, key))
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			f.note(&f.reads, fmt.Sprintf("%T", list))
			return c.List(ctx, list, opts...)
		},
	})
	f.options.Clock, f.options.Logs, f.options.Optional, f.options.Authors = f.clock, f.logs, f.kinds, kubetest.AnyAuthor{}
	f.kit = NewWith(f.cluster, live, f, f.options)
}

func (f *fixture) note(to *[]string, what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*to = append(*to, what)
}

// take returns the entries that were recorded since the last call.
func (f *fixture) take(from *[]string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	taken := *from
	*from = nil
	return taken
}

// Eventf implements events.EventRecorder.
func (f *fixture) Eventf(_, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	f.note(&f.events, eventType+" "+reason+": "+fmt.Sprintf(note, args...))
}

func (f *fixture) writeCounter() interceptor.Funcs {
	note := func(what string, obj client.Object) {
		f.note(&f.writes, fmt.Sprintf("%s %T %s/%s", what, obj, obj.GetNamespace(), obj.GetName()))
	}
	return interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			note("delete", obj)
			return c.Delete(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			note("patch", obj)
			return c.Patch(ctx, obj, patch, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			note("patch "+sub, obj)
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			note("apply", obj.(client.Object))
			return c.Apply(ctx, obj, opts...)
		},
	}
}

// reconcile runs one pass.
func (f *fixture) reconcile() (*plane, ctrl.Result) {
	f.t.Helper()
	s, result, err := f.try()
	if err != nil {
		f.t.Fatalf("reconciling: %v", err)
	}
	return s, result
}

func (f *fixture) try() (*plane, ctrl.Result, error) {
	cp := &coderv1alpha1.CoderControlPlane{}
	if err := f.kit.Client.Get(f.t.Context(), types.NamespacedName{Namespace: "coder", Name: "coder"}, cp); err != nil {
		return nil, ctrl.Result{}, err
	}
	s := &plane{cp: cp}
	s.Pass = f.kit.NewPass(planeKind(), cp, &cp.Status.WorkloadStatus, resources.Workload(cp, resources.Inputs{}))
	list := append(Begin[*plane](f.kit), Steps[*plane](f.kit, Needs{})...)
	if s.Deleting() {
		list = []steps.Step[*plane]{
			Step[*plane](StepWorkspaces, f.kit.RemoveWorkspaceAccess),
			Step[*plane](StepRelease, f.kit.Release, StepWorkspaces),
		}
	}
	s.Outcome = steps.Run(f.t.Context(), s, list)
	result, err := f.kit.Finish(f.t.Context(), &s.Pass, func() *coderv1alpha1.WorkloadStatus {
		parts := []metav1.Condition{s.ResourcesApplied(), s.DeploymentAvailable()}
		for _, part := range []*metav1.Condition{s.WorkspaceAccess(), s.Exposed(), s.MetricsExported()} {
			if part != nil {
				parts = append(parts, *part)
			}
		}
		cp.Status.WorkloadStatus = s.Status(Summary{Parts: parts, Works: "it runs"})
		return &cp.Status.WorkloadStatus
	}, RestInterval)
	return s, result, err
}

// settle reconciles until a pass writes nothing.
func (f *fixture) settle() ctrl.Result {
	f.t.Helper()
	for range 10 {
		f.take(&f.writes)
		_, result := f.reconcile()
		if len(f.take(&f.writes)) == 0 {
			return result
		}
	}
	f.t.Fatal("ten passes, and still something to write")
	return ctrl.Result{}
}

func (f *fixture) get(namespace, name string, obj client.Object) {
	f.t.Helper()
	if err := f.cluster.Get(f.t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, obj); err != nil {
		f.t.Fatalf("reading %T %s/%s: %v", obj, namespace, name, err)
	}
}

func (f *fixture) gone(name string, obj client.Object) bool {
	f.t.Helper()
	err := f.cluster.Get(f.t.Context(), types.NamespacedName{Namespace: "coder", Name: name}, obj)
	if client.IgnoreNotFound(err) != nil {
		f.t.Fatal(err)
	}
	return apierrors.IsNotFound(err)
}

func (f *fixture) create(obj client.Object) {
	f.t.Helper()
	if err := f.cluster.Create(f.t.Context(), obj); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) controlPlane() *coderv1alpha1.CoderControlPlane {
	f.t.Helper()
	cp := &coderv1alpha1.CoderControlPlane{}
	f.get("coder", "coder", cp)
	return cp
}

func (f *fixture) deployment() *appsv1.Deployment {
	f.t.Helper()
	d := &appsv1.Deployment{}
	f.get("coder", "coder", d)
	return d
}

// change edits the control plane like a user.
func (f *fixture) change(change func(*coderv1alpha1.CoderControlPlane)) {
	f.t.Helper()
	cp := f.controlPlane()
	change(cp)
	cp.Generation++
	if err := f.cluster.Update(f.t.Context(), cp); err != nil {
		f.t.Fatal(err)
	}
}

// podsReady updates the status of the Deployment like the Deployment controller and the kubelet.
func (f *fixture) podsReady(ready int32) {
	f.t.Helper()
	d := f.deployment()
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: *d.Spec.Replicas, UpdatedReplicas: *d.Spec.Replicas,
		ReadyReplicas: ready, AvailableReplicas: ready,
	}
	if err := f.cluster.SubResource("status").Update(f.t.Context(), d); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) mustHave(conditionType string, status metav1.ConditionStatus, reason string) metav1.Condition {
	f.t.Helper()
	all := f.controlPlane().Status.Conditions
	c := conditions.Find(all, conditionType)
	if c == nil || c.Status != status || c.Reason != reason {
		f.t.Fatalf("condition %s is %+v, want %s/%s; all: %+v", conditionType, c, status, reason, all)
	}
	return *c
}

func newControlPlane(changes ...func(*coderv1alpha1.CoderControlPlane)) *coderv1alpha1.CoderControlPlane {
	cp := &coderv1alpha1.CoderControlPlane{
		ObjectMeta: metav1.ObjectMeta{
			Name: "coder", Namespace: "coder", UID: "cp-uid", Generation: 1,
			CreationTimestamp: metav1.NewTime(time.Date(2026, 11, 21, 11, 59, 30, 0, time.UTC)),
		},
		Spec: coderv1alpha1.CoderControlPlaneSpec{
			Image:        "ghcr.io/coder/coder:v2.30.0",
			WorkloadSpec: coderv1alpha1.WorkloadSpec{Replicas: ptr.To[int32](1)},
		},
	}
	for _, change := range changes {
		change(cp)
	}
	return cp
}

func withSecretVariable(secret, key string) func(*coderv1alpha1.CoderControlPlane) {
	return func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Spec.ExtraEnv = append(cp.Spec.ExtraEnv, corev1.EnvVar{Name: "FROM_" + key, ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key},
		}})
	}
}

func secretOf(name string, data map[string]string) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: name}, Data: map[string][]byte{}}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	return secret
}

// fakeLogs contains the logs of containers by name, for the current and the previous container.
type fakeLogs struct {
	current, previous map[string]string
}

func (l *fakeLogs) Tail(_ context.Context, request LogRequest) (string, error) {
	logs := l.current
	if request.Previous {
		logs = l.previous
	}
	if text, ok := logs[request.Container]; ok {
		return text, nil
	}
	return "", errors.New("there is no log")
}
