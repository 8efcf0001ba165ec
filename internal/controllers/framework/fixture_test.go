package framework

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controllertest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

func planeKind() Kind {
	return Kind{
		Name: "CoderControlPlane", Noun: "control plane", Finalizer: "test.coder.com/finalizer",
		OwnerLabel: coderv1alpha1.LabelControlPlane, OwnerNamespaceLabel: coderv1alpha1.LabelControlPlaneNamespace,
	}
}

// fixture runs the shared steps against a fake cluster. It records uncached reads.
type fixture struct {
	*controllertest.Fixture[*coderv1alpha1.CoderControlPlane]
	kit     *Toolkit
	kinds   kindList
	logs    *fakeLogs
	options Options
	// last is the last pass.
	last *Pass
	// reads are the uncached reads.
	reads []string
}

type kindList map[schema.GroupVersionKind]bool

func (k kindList) Has(kind schema.GroupVersionKind) bool { return k[kind] }

func newFixture(t testing.TB, objects ...client.Object) *fixture {
	t.Helper()
	f := &fixture{
		kinds: kindList{}, logs: &fakeLogs{},
		Fixture: controllertest.New(t, controllertest.Options[*coderv1alpha1.CoderControlPlane]{
			Name: client.ObjectKey{Namespace: "coder", Name: "coder"}, Deployment: "coder",
			Status: func(cp *coderv1alpha1.CoderControlPlane) *coderv1alpha1.WorkloadStatus {
				return &cp.Status.WorkloadStatus
			},
			Further: func(b *fake.ClientBuilder) {
				b.WithIndex(&coderv1alpha1.CoderControlPlane{}, IndexReferences, IndexByReferences(func(obj client.Object) []resources.Reference {
					return ReferencesOf(resources.ControlPlane(obj.(*coderv1alpha1.CoderControlPlane), resources.Cluster{}))
				}))
			},
		}),
	}
	f.Reconciler = reconcile.Func(f.pass)
	f.Build(objects...)
	f.restart()
	return f
}

// restart creates a new Toolkit with empty state, like a new process.
func (f *fixture) restart() {
	live := interceptor.NewClient(f.Cluster, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			f.reads = append(f.reads, fmt.Sprintf("%T %s", obj, key))
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			f.reads = append(f.reads, fmt.Sprintf("%T", list))
			return c.List(ctx, list, opts...)
		},
	})
	f.options.Clock, f.options.Logs, f.options.Optional, f.options.CheckAuthor = f.Clock, f.logs.Tail, f.kinds, kubetest.AnyAuthor
	f.kit = NewWith(f.Cluster, live, f.Events, f.options)
}

// takeReads returns the uncached reads since the last call.
func (f *fixture) takeReads() []string {
	reads := f.reads
	f.reads = nil
	return reads
}

// pass is the Reconcile of a kind that has only the shared steps.
func (f *fixture) pass(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cp := &coderv1alpha1.CoderControlPlane{}
	if err := f.kit.Client.Get(ctx, req.NamespacedName, cp); err != nil {
		return ctrl.Result{}, err
	}
	p := new(f.kit.NewPass(planeKind(), cp, &cp.Status.WorkloadStatus, resources.ControlPlane(cp, resources.Cluster{})))
	f.last = p
	list := append(f.kit.Begin(p), f.kit.Steps(p)...)
	if p.Deleting() {
		list = []Step{
			NewStep(StepOrphaned, p, f.kit.FindOrphaned),
			NewStep(StepWorkspaces, p, f.kit.RemoveWorkspaceAccess, StepOrphaned),
			NewStep(StepRelease, p, f.kit.Release, StepWorkspaces),
		}
	}
	p.Run(ctx, list)
	return f.kit.Finish(ctx, p, func() *coderv1alpha1.WorkloadStatus {
		parts := Parts(new(p.ResourcesApplied()), new(p.DeploymentAvailable()), p.WorkspaceAccess(), p.Exposed(), p.MetricsExported())
		cp.Status.WorkloadStatus = p.Status(Summary{Parts: parts, Works: "it runs"})
		return &cp.Status.WorkloadStatus
	}, RestInterval)
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
	return controllertest.Secret("coder", name, data)
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
