package workspaceproxy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workspaceproxy/registration"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply/applytest"
	"github.com/coder-k8s/coder-k8s/internal/kube/conditions"
	"github.com/coder-k8s/coder-k8s/internal/kube/crashtest"
)

const (
	controlPlaneURL = "http://dev.team.svc.cluster.local:80"
	nextURL         = "http://next.team.svc.cluster.local:80"
	accessURL       = "https://coder.example.com"
	nextAccessURL   = "https://next.example.com"
	deploymentName  = "wsproxy-sydney"
	tokenSecret     = "sydney-proxy-token"
)

// fixture runs the controller against a fake cluster and two fake Coders.
type fixture struct {
	t       testing.TB
	cluster client.WithWatch
	coder   *coderdtest.Server
	next    *coderdtest.Server
	clock   *clocktesting.FakePassiveClock
	events  *eventLog
	fault   *crashtest.Fault
	r       *Reconciler
	writes  []string
}

// knownKinds is the scheme of the fake cluster.
var knownKinds = applytest.KindsOf(corev1.AddToScheme, appsv1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme, coderv1alpha1.AddToScheme)

func newFixture(t testing.TB, proxy *coderv1alpha1.CoderWorkspaceProxy, objects ...client.Object) *fixture {
	t.Helper()
	f := &fixture{
		t: t, events: &eventLog{}, fault: &crashtest.Fault{},
		clock: clocktesting.NewFakePassiveClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)),
		coder: coderdtest.New(t, coderdtest.WithLicensing()), next: coderdtest.New(t, coderdtest.WithLicensing()),
	}
	f.coder.SetFeature(coderd.FeatureWorkspaceProxy, "entitled")
	f.next.SetFeature(coderd.FeatureWorkspaceProxy, "entitled")
	builder := knownKinds.Cluster(t).WithReturnManagedFields().
		WithStatusSubresource(&coderv1alpha1.CoderWorkspaceProxy{}, &coderv1alpha1.CoderControlPlane{}, &appsv1.Deployment{}).
		WithObjects(proxy, f.secret("dev-operator-token", f.coder.AddUser("operator", "owner")), f.secret("next-operator-token", f.next.AddUser("operator", "owner")),
			controlPlane("dev", controlPlaneURL, accessURL), controlPlane("next", nextURL, nextAccessURL)).
		WithObjects(objects...).WithInterceptorFuncs(f.interceptors()).
		WithIndex(&coderv1alpha1.CoderWorkspaceProxy{}, IndexControlPlane, controlPlaneOf)
	for _, child := range workload.Children() {
		builder = builder.WithIndex(child, workload.IndexController, workload.ControllerOf)
	}
	f.cluster = builder.Build()
	f.restart()
	return f
}

func (f *fixture) secret(name, token string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}, Data: map[string][]byte{"token": []byte(token)}}
}

func controlPlane(name, url, access string) *coderv1alpha1.CoderControlPlane {
	return &coderv1alpha1.CoderControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(name + "-uid")},
		Spec:       coderv1alpha1.CoderControlPlaneSpec{Image: "ghcr.io/coder/coder:v2.30.1"},
		Status: coderv1alpha1.CoderControlPlaneStatus{
			URL: url, AccessURL: access, Image: "ghcr.io/coder/coder:v2.30.1", OperatorAccessReady: true,
			OperatorTokenSecretRef: &coderv1alpha1.TokenSecretReference{Name: name + "-operator-token", Key: "token"},
		},
	}
}

func newProxy(changes ...func(*coderv1alpha1.CoderWorkspaceProxy)) *coderv1alpha1.CoderWorkspaceProxy {
	proxy := &coderv1alpha1.CoderWorkspaceProxy{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "sydney", UID: "proxy-uid", Generation: 1,
			CreationTimestamp: metav1.NewTime(time.Date(2026, 11, 20, 11, 59, 0, 0, time.UTC)),
		},
		Spec: coderv1alpha1.CoderWorkspaceProxySpec{
			ControlPlaneRef: &coderv1alpha1.ControlPlaneReference{Name: "dev"},
			WorkloadSpec:    coderv1alpha1.WorkloadSpec{Replicas: ptr.To[int32](1)},
			ServingSpec:     coderv1alpha1.ServingSpec{Service: coderv1alpha1.ServiceSpec{Port: 80}},
		},
	}
	for _, change := range changes {
		change(proxy)
	}
	return proxy
}

// restart creates a new controller with empty state, like a new process.
func (f *fixture) restart() {
	f.fault.Set(0, false)
	kit := workload.NewWith(f.cluster, f.cluster, f.events, workload.Options{Clock: f.clock})
	f.r = &Reconciler{kit: kit, registrar: &registration.Manager{
		Client: f.cluster, Reader: f.cluster, Clock: f.clock,
		NewClient: func(cfg coderd.Config) (*coderd.Client, error) {
			if _, err := coderd.New(cfg); err != nil {
				return nil, err
			}
			cfg.Transport = &router{f: f}
			return coderd.New(cfg)
		},
	}}
}

// router is a transport that maps the URLs of the two Coders to the fake ones.
type router struct{ f *fixture }

func (r *router) RoundTrip(req *http.Request) (*http.Response, error) {
	servers := map[string]*coderdtest.Server{
		controlPlaneURL: r.f.coder, accessURL: r.f.coder, nextURL: r.f.next, nextAccessURL: r.f.next,
	}
	server := servers[req.URL.Scheme+"://"+req.URL.Host]
	if server == nil {
		return nil, fmt.Errorf("the controller calls %s", req.URL.Host)
	}
	req = req.Clone(req.Context())
	req.URL.Scheme, req.URL.Host = "http", strings.TrimPrefix(server.URL, "http://")
	req.Host = ""
	return r.f.fault.RoundTrip(req)
}

// interceptors records every write, and can end the process at a write.
func (f *fixture) interceptors() interceptor.Funcs {
	write := func(what string, obj client.Object, do func() error) error {
		f.writes = append(f.writes, fmt.Sprintf("%s %s %T %s", what, obj.GetObjectKind().GroupVersionKind().Kind, obj, obj.GetName()))
		return f.fault.Around(do)
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
			return write("apply", obj.(client.Object), func() error { return c.Apply(ctx, obj, opts...) })
		},
	}
}

func (f *fixture) try() (ctrl.Result, error) {
	return f.r.Reconcile(f.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "team", Name: "sydney"}})
}

func (f *fixture) reconcile() ctrl.Result {
	f.t.Helper()
	result, err := f.try()
	if err != nil {
		f.t.Fatalf("reconciling: %v", err)
	}
	return result
}

// settle reconciles until a pass writes nothing.
func (f *fixture) settle() ctrl.Result {
	f.t.Helper()
	for range 12 {
		f.writes = nil
		result := f.reconcile()
		if len(f.writes) == 0 {
			f.mustNotLeak()
			return result
		}
	}
	f.t.Fatalf("twelve passes, and still something to write: %q", f.writes)
	return ctrl.Result{}
}

// run is settle with pods that become ready.
func (f *fixture) run() ctrl.Result {
	f.t.Helper()
	f.settle()
	f.podsReady()
	return f.settle()
}

func (f *fixture) proxy() *coderv1alpha1.CoderWorkspaceProxy {
	f.t.Helper()
	proxy := &coderv1alpha1.CoderWorkspaceProxy{}
	f.get("sydney", proxy)
	return proxy
}

// edit changes the spec like the API server.
func (f *fixture) edit(change func(*coderv1alpha1.CoderWorkspaceProxySpec)) {
	f.t.Helper()
	proxy := f.proxy()
	change(&proxy.Spec)
	proxy.Generation++
	f.update(proxy)
}

func (f *fixture) update(obj client.Object) {
	f.t.Helper()
	if err := f.cluster.Update(f.t.Context(), obj); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) create(obj client.Object) {
	f.t.Helper()
	if err := f.cluster.Create(f.t.Context(), obj); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) remove(obj client.Object) {
	f.t.Helper()
	if err := f.cluster.Delete(f.t.Context(), obj); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) get(name string, obj client.Object) {
	f.t.Helper()
	if !f.has(name, obj) {
		f.t.Fatalf("there is no %T %q", obj, name)
	}
}

func (f *fixture) has(name string, obj client.Object) bool {
	f.t.Helper()
	err := f.cluster.Get(f.t.Context(), types.NamespacedName{Namespace: "team", Name: name}, obj)
	if client.IgnoreNotFound(err) != nil {
		f.t.Fatal(err)
	}
	return !apierrors.IsNotFound(err)
}

func (f *fixture) deployment() *appsv1.Deployment {
	f.t.Helper()
	d := &appsv1.Deployment{}
	f.get(deploymentName, d)
	return d
}

// podsReady updates the status of the Deployment like the Deployment controller and the kubelet.
func (f *fixture) podsReady() {
	f.t.Helper()
	d := f.deployment()
	n := *d.Spec.Replicas
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
	if err := f.cluster.SubResource("status").Update(f.t.Context(), d); err != nil {
		f.t.Fatal(err)
	}
}

// delete deletes the proxy. The time of the request is the fixture's clock.
func (f *fixture) delete() {
	f.t.Helper()
	f.remove(f.proxy())
	f.clock.SetTime(f.proxy().DeletionTimestamp.Time)
}

func (f *fixture) gone() bool { return !f.has("sydney", &coderv1alpha1.CoderWorkspaceProxy{}) }

// mustHave checks a condition of the proxy.
func (f *fixture) mustHave(conditionType string, status metav1.ConditionStatus, reason string) metav1.Condition {
	f.t.Helper()
	proxy := f.proxy()
	c := conditions.Find(proxy.Status.Conditions, conditionType)
	if c == nil || c.Status != status || c.Reason != reason || c.ObservedGeneration != proxy.Generation {
		f.t.Fatalf("condition %s is %+v, want %s/%s; all: %+v", conditionType, c, status, reason, proxy.Status.Conditions)
	}
	return *c
}

func (f *fixture) mustNotHave(conditionType string) {
	f.t.Helper()
	if c := conditions.Find(f.proxy().Status.Conditions, conditionType); c != nil {
		f.t.Errorf("condition %+v", *c)
	}
}

// env returns a variable of Coder's container.
func (f *fixture) env(name string) corev1.EnvVar {
	f.t.Helper()
	for _, variable := range f.deployment().Spec.Template.Spec.Containers[0].Env {
		if variable.Name == name {
			return variable
		}
	}
	return corev1.EnvVar{}
}

// mustNotLeak checks that the status and the Events do not contain tokens.
func (f *fixture) mustNotLeak() {
	f.t.Helper()
	secrets := &corev1.SecretList{}
	if err := f.cluster.List(f.t.Context(), secrets); err != nil {
		f.t.Fatal(err)
	}
	status, err := json.Marshal(f.proxy().Status)
	if err != nil {
		f.t.Fatal(err)
	}
	seen := string(status) + strings.Join(f.events.all(), "\n")
	for _, secret := range secrets.Items {
		if token := string(secret.Data["token"]); token != "" && strings.Contains(seen, token) {
			f.t.Errorf("the token of Secret %q is told: %s", secret.Name, seen)
		}
	}
}

// asked returns the number of requests to the first Coder since the last call.
func (f *fixture) asked() int {
	n := 0
	for _, count := range f.coder.Requests() {
		n += count
	}
	f.coder.ResetRequests()
	return n
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
