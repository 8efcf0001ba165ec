package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/access"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/licensing"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controlplane/resources"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply/applytest"
	"github.com/coder-k8s/coder-k8s/internal/kube/conditions"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// password must not appear outside its Secret.
const password = "correct-horse-battery"

// errKilled simulates the end of the process.
var errKilled = errors.New("killed")

// fixture runs the controller against a fake cluster and a fake Coder.
type fixture struct {
	t       testing.TB
	cluster client.WithWatch
	coder   *coderdtest.Server
	clock   *clocktesting.FakePassiveClock
	events  *eventLog
	logs    *fakeLogs
	r       *Reconciler

	// fault disturbs the controller's writes to the cluster and to Coder.
	fault *fault
	// reads disturbs the controller's reads from the cluster.
	reads *fault
	// late is the stale cache from which the controller reads, if set.
	late *lateCache
	// kinds are the optional kinds that the cluster serves.
	kinds kindList
	// authors checks the author of grants.
	authors workload.Authors
	// anyPort allows calls of Coder on other ports than 80.
	anyPort bool

	mu         sync.Mutex
	writes     []string
	killAfter  int
	applyError func(obj client.Object) error
	// lists counts the uncached lists of control planes.
	lists int
}

// knownKinds is the scheme of the fake cluster.
var knownKinds = applytest.KindsOf(
	corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, rbacv1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
	coderv1alpha1.AddToScheme, gatewayv1.Install, monitoringv1.AddToScheme,
)

func newFixture(t testing.TB, objects ...client.Object) *fixture {
	t.Helper()
	f := &fixture{
		t: t, coder: coderdtest.New(t), events: &eventLog{}, logs: &fakeLogs{}, fault: &fault{}, reads: &fault{}, kinds: kindList{}, authors: kubetest.AnyAuthor{},
		clock: clocktesting.NewFakePassiveClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)),
	}
	f.cluster = newCluster(t).WithObjects(objects...).WithInterceptorFuncs(f.interceptors()).Build()
	f.restart()
	return f
}

// newCluster returns a builder of a cluster with the indexes of the manager's cache.
func newCluster(t testing.TB) *fake.ClientBuilder {
	t.Helper()
	builder := knownKinds.Cluster(t).WithReturnManagedFields().
		WithStatusSubresource(&coderv1alpha1.CoderControlPlane{}, &appsv1.Deployment{}, &batchv1.Job{}, &gatewayv1.HTTPRoute{})
	for _, child := range workload.Children() {
		builder = builder.WithIndex(child, workload.IndexController, workload.ControllerOf)
	}
	for _, child := range workload.OptionalChildren() {
		builder = builder.WithIndex(child, workload.IndexController, workload.ControllerOf)
	}
	return builder
}

// restart creates a new controller with empty state, like a new process.
func (f *fixture) restart() {
	connect := func(cfg coderd.Config) (*coderd.Client, error) {
		if want := "http://coder.coder.svc.cluster.local:80"; cfg.URL != want && (!f.anyPort || !strings.HasPrefix(cfg.URL, strings.TrimSuffix(want, "80"))) {
			return nil, fmt.Errorf("the controller calls %q, want %q", cfg.URL, want)
		}
		cfg.URL, cfg.Transport = f.coder.URL, &wire{f.fault}
		return coderd.New(cfg)
	}
	live := interceptor.NewClient(f.cluster, f.readers(false))
	cached := interceptor.NewClient(f.cluster, f.readers(true))
	kit := workload.NewWith(cached, live, f.events, workload.Options{Clock: f.clock, Logs: f.logs, Optional: f.kinds, Authors: f.authors})
	f.r = newReconciler(kit, Options{
		Access:   &access.Manager{Client: live, Clock: f.clock, NewClient: connect},
		Connect:  func(url string) (Coder, error) { return connect(coderd.Config{URL: url}) },
		Operator: func(cfg coderd.Config) (licensing.Coder, error) { return connect(cfg) },
	})
}

// readers returns interceptors that count the uncached lists of control planes, and make reads fail
// or come from a stale cache.
func (f *fixture) readers(cached bool) interceptor.Funcs {
	from := func(c client.WithWatch) client.WithWatch {
		if cached && f.late != nil {
			return f.late.view()
		}
		return c
	}
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			return f.reads.around(func() error { return from(c).Get(ctx, key, obj, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*coderv1alpha1.CoderControlPlaneList); ok && !cached {
				f.mu.Lock()
				f.lists++
				f.mu.Unlock()
			}
			return f.reads.around(func() error { return from(c).List(ctx, list, opts...) })
		},
	}
}

// interceptors returns interceptors that count every write, can end the process after a write, and
// can make an apply fail.
func (f *fixture) interceptors() interceptor.Funcs {
	write := func(what string, obj client.Object, do func() error) error {
		err := f.fault.around(do)
		if f.late != nil {
			f.late.note()
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.writes = append(f.writes, fmt.Sprintf("%s %T %s/%s", what, obj, obj.GetNamespace(), obj.GetName()))
		if err == nil && f.killAfter > 0 {
			if f.killAfter--; f.killAfter == 0 {
				return errKilled
			}
		}
		return err
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return write("create", obj, func() error { return c.Create(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return write("update", obj, func() error { return c.Update(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return write("delete", obj, func() error { return c.Delete(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return write("patch", obj, func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return write("patch "+sub, obj, func() error { return c.SubResource(sub).Patch(ctx, obj, patch, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			object := obj.(client.Object)
			if f.applyError != nil {
				if err := f.applyError(object); err != nil {
					return err
				}
			}
			return write("apply", object, func() error { return c.Apply(ctx, obj, opts...) })
		},
	}
}

func (f *fixture) takeWrites() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	writes := f.writes
	f.writes = nil
	return writes
}

func (f *fixture) try(name string) (ctrl.Result, error) {
	return f.r.Reconcile(f.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "coder", Name: name}})
}

func (f *fixture) reconcile() ctrl.Result {
	f.t.Helper()
	result, err := f.try("coder")
	if err != nil {
		f.t.Fatalf("reconciling: %v", err)
	}
	return result
}

// settle reconciles until a pass writes nothing.
func (f *fixture) settle() ctrl.Result {
	f.t.Helper()
	for range 10 {
		f.takeWrites()
		result := f.reconcile()
		if len(f.takeWrites()) == 0 {
			return result
		}
	}
	f.t.Fatal("ten passes, and still something to write")
	return ctrl.Result{}
}

func (f *fixture) controlPlane() *coderv1alpha1.CoderControlPlane {
	f.t.Helper()
	cp := &coderv1alpha1.CoderControlPlane{}
	f.get("coder", "coder", cp)
	return cp
}

func (f *fixture) get(namespace, name string, obj client.Object) {
	f.t.Helper()
	if err := f.cluster.Get(f.t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, obj); err != nil {
		f.t.Fatalf("reading %T %s/%s: %v", obj, namespace, name, err)
	}
}

func (f *fixture) gone(namespace, name string, obj client.Object) bool {
	f.t.Helper()
	err := f.cluster.Get(f.t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, obj)
	if client.IgnoreNotFound(err) != nil {
		f.t.Fatal(err)
	}
	return apierrors.IsNotFound(err)
}

// podsReady updates the status of the Deployment like the Deployment controller and the kubelet.
func (f *fixture) podsReady(ready int32) {
	f.t.Helper()
	d := &appsv1.Deployment{}
	f.get("coder", "coder", d)
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: *d.Spec.Replicas, UpdatedReplicas: *d.Spec.Replicas,
		ReadyReplicas: ready, AvailableReplicas: ready,
	}
	if err := f.cluster.SubResource("status").Update(f.t.Context(), d); err != nil {
		f.t.Fatal(err)
	}
}

// mustHave checks a condition of the control plane.
func (f *fixture) mustHave(conditionType string, status metav1.ConditionStatus, reason string) metav1.Condition {
	f.t.Helper()
	cp := f.controlPlane()
	c := conditions.Find(cp.Status.Conditions, conditionType)
	if c == nil || c.Status != status || c.Reason != reason {
		f.t.Fatalf("condition %s is %+v, want %s/%s; all: %+v", conditionType, c, status, reason, cp.Status.Conditions)
	}
	return *c
}

// mustNotLeak checks that the status and the Events do not contain the password.
func (f *fixture) mustNotLeak() {
	f.t.Helper()
	status, err := json.Marshal(f.controlPlane().Status)
	if err != nil {
		f.t.Fatal(err)
	}
	seen := string(status) + strings.Join(f.events.all(), "\n")
	if strings.Contains(seen, password) || strings.Contains(seen, "://coder:") {
		f.t.Errorf("the password or the user of the database is told: %s", seen)
	}
}

func newControlPlane(changes ...func(*coderv1alpha1.CoderControlPlane)) *coderv1alpha1.CoderControlPlane {
	cp := &coderv1alpha1.CoderControlPlane{
		ObjectMeta: metav1.ObjectMeta{Name: "coder", Namespace: "coder", UID: "cp-uid", Generation: 1},
		Spec: coderv1alpha1.CoderControlPlaneSpec{
			Image: "ghcr.io/coder/coder:v2.30.0",
			WorkloadSpec: coderv1alpha1.WorkloadSpec{
				Replicas: ptr.To[int32](1),
				ExtraEnv: []corev1.EnvVar{{Name: resources.EnvDatabase, ValueFrom: &corev1.EnvVarSource{
					SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "db"}, Key: "url"},
				}}},
			},
			InitialAdmin: coderv1alpha1.InitialAdminSpec{Username: "admin", Email: "admin@example.com"},
		},
	}
	for _, change := range changes {
		change(cp)
	}
	return cp
}

func databaseSecret() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "coder"},
		Data:       map[string][]byte{"url": []byte("postgres://coder:" + password + "@db.coder.svc:5432/coder")},
	}
}

// eventLog records Events as "type reason: note".
type eventLog struct {
	mu     sync.Mutex
	events []string
}

func (l *eventLog) Eventf(_, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, eventType+" "+reason+": "+fmt.Sprintf(note, args...))
}

func (l *eventLog) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.events...)
}

func (l *eventLog) count(prefix string) int {
	n := 0
	for _, event := range l.all() {
		if strings.HasPrefix(event, prefix) {
			n++
		}
	}
	return n
}

// fakeLogs contains the logs of every container, for the current and the previous container.
type fakeLogs struct {
	current, previous string
	requests          []workload.LogRequest
}

func (l *fakeLogs) Tail(_ context.Context, request workload.LogRequest) (string, error) {
	l.requests = append(l.requests, request)
	if request.Previous {
		return l.previous, nil
	}
	return l.current, nil
}
