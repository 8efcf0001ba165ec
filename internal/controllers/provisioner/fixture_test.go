package provisioner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/provisioner/resources"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply/applytest"
	"github.com/coder-k8s/coder-k8s/internal/kube/conditions"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

const (
	namespace = "coder"
	name      = "gpu"
	coderURL  = "http://coder.coder.svc.cluster.local"
	feature   = coderd.FeatureExternalProvisioners
)

// errKilled simulates the end of the process.
var errKilled = errors.New("killed")

// fixture runs the controller against a fake cluster and a fake Coder with a license.
type fixture struct {
	t       testing.TB
	cluster client.WithWatch
	coder   *coderdtest.Server
	token   string
	clock   *clocktesting.FakePassiveClock
	events  *eventLog
	r       *Reconciler
	refused []types.NamespacedName

	mu        sync.Mutex
	writes    []string
	killAfter int
	dead      bool
	// After failAfter calls, a write to the cluster or any request to Coder fails once, with
	// failWith or with a broken connection.
	failAfter int
	failWith  error
	// behind contains the versions of Secrets that the stale cache still has.
	behind map[string]string
	// slow pods end only when the test ends them.
	slow bool
	uids int
}

// knownKinds is the scheme of the fake cluster.
var knownKinds = applytest.KindsOf(clientgoscheme.AddToScheme, coderv1alpha1.AddToScheme)

func newFixture(t testing.TB, objects ...client.Object) *fixture {
	t.Helper()
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	f := &fixture{
		t: t, events: &eventLog{}, clock: clock, behind: map[string]string{},
		coder: coderdtest.New(t, coderdtest.WithClock(clock), coderdtest.WithLicensing()),
	}
	f.coder.SetFeature(feature, "entitled")
	f.token = f.coder.AddUser("operator", "owner")
	token := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "coder-operator-token"}, Data: map[string][]byte{"token": []byte(f.token)}}
	b := knownKinds.Cluster(t).WithReturnManagedFields().
		WithStatusSubresource(&coderv1alpha1.CoderProvisioner{}, &coderv1alpha1.CoderControlPlane{}, &appsv1.Deployment{}).
		WithIndex(&coderv1alpha1.CoderProvisioner{}, indexControlPlane, namedControlPlane).
		WithObjects(append(objects, token)...).WithInterceptorFuncs(f.interceptors())
	for _, child := range workload.Children() {
		b = b.WithIndex(child, workload.IndexController, workload.ControllerOf)
	}
	f.cluster = b.Build()
	f.restart()
	return f
}

// restart creates a new controller with empty state, like a new process.
func (f *fixture) restart() {
	f.mu.Lock()
	f.killAfter, f.dead = 0, false
	f.mu.Unlock()
	kit := workload.NewWith(f.cluster, f.cluster, f.events, workload.Options{
		Clock: f.clock, Metadata: bareMetadata{f.cluster, f.behind}, Authors: kubetest.AnyAuthor{},
	})
	f.r = newReconciler(kit, Options{
		Secrets: f.cluster,
		NewClient: func(cfg coderd.Config) (*coderd.Client, error) {
			if cfg.URL != coderURL {
				return nil, fmt.Errorf("the controller calls %q, want %q", cfg.URL, coderURL)
			}
			cfg.URL, cfg.Transport = f.coder.URL, mortal{f}
			return coderd.New(cfg)
		},
		Refused: func(key types.NamespacedName) { f.refused = append(f.refused, key) },
	})
}

// bareMetadata is a cache of metadata without annotations, like the manager's. It may be stale.
type bareMetadata struct {
	client.Reader
	versions map[string]string
}

func (b bareMetadata) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := b.Reader.Get(ctx, key, obj, opts...)
	obj.SetAnnotations(nil)
	if version, behind := b.versions[key.Name]; behind {
		obj.SetResourceVersion(version)
	}
	return err
}

func (b bareMetadata) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := b.Reader.List(ctx, list, opts...)
	if partial, ok := list.(*metav1.PartialObjectMetadataList); ok {
		for i := range partial.Items {
			partial.Items[i].Annotations = nil
		}
	}
	return err
}

// mortal is the transport of a process that may be killed. Each request that writes counts as a
// write.
type mortal struct{ f *fixture }

func (m mortal) RoundTrip(req *http.Request) (*http.Response, error) {
	if m.f.isDead() {
		return nil, errKilled
	}
	if m.f.fails() != nil {
		return nil, errors.New("connection reset by peer")
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil || req.Method == http.MethodGet {
		return res, err
	}
	if err := m.f.after(req.Method+" "+req.URL.Path, nil); err != nil {
		_ = res.Body.Close()
		return nil, err
	}
	return res, nil
}

func (f *fixture) fails() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failAfter == 0 {
		return nil
	}
	if f.failAfter--; f.failAfter > 0 {
		return nil
	}
	return f.failWith
}

// failsDelete is fails for a deletion. The API server returns a conflict for a deletion only if the
// object is not the one that was meant.
func (f *fixture) failsDelete() error {
	if err := f.fails(); !apierrors.IsConflict(err) {
		return err
	}
	return nil
}

func (f *fixture) isDead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

// after records a completed write, and ends the process if it is the chosen one.
func (f *fixture) after(what string, err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes = append(f.writes, what)
	if err == nil && f.killAfter > 0 {
		if f.killAfter--; f.killAfter == 0 {
			f.dead = true
			return errKilled
		}
	}
	return err
}

func (f *fixture) interceptors() interceptor.Funcs {
	write := func(what string, obj client.Object, do func() error) error {
		if f.isDead() {
			return errKilled
		}
		fails := f.fails
		if what == "delete" {
			fails = f.failsDelete
		}
		if err := fails(); err != nil {
			return err
		}
		return f.after(fmt.Sprintf("%s %T %s", what, obj, obj.GetName()), do())
	}
	return interceptor.Funcs{
		// client-go sends no request for a name that is invalid in a path.
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if strings.Contains(key.Name, "/") {
				return fmt.Errorf("invalid resource name %q", key.Name)
			}
			return c.Get(ctx, key, obj, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			f.giveUID(obj)
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

func (f *fixture) giveUID(obj client.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if obj.GetUID() == "" {
		f.uids++
		obj.SetUID(types.UID(fmt.Sprintf("uid-%d", f.uids)))
	}
}

func (f *fixture) takeWrites() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	writes := f.writes
	f.writes = nil
	return writes
}

func (f *fixture) try(of string) (ctrl.Result, error) {
	return f.r.Reconcile(ctrl.LoggerInto(f.t.Context(), logr.Discard()), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: of}})
}

func (f *fixture) reconcile() ctrl.Result {
	f.t.Helper()
	result, err := f.try(name)
	if err != nil {
		f.t.Fatalf("reconciling: %v", err)
	}
	return result
}

// settle reconciles, and simulates the cluster, until a pass writes nothing.
func (f *fixture) settle() ctrl.Result {
	f.t.Helper()
	for range 20 {
		f.roll()
		f.takeWrites()
		result := f.reconcile()
		if len(f.takeWrites()) == 0 && !f.roll() {
			f.takeWrites()
			return result
		}
	}
	f.t.Fatal("twenty passes, and still something to write")
	return ctrl.Result{}
}

// roll does the work of the Deployment controller, the garbage collector and the kubelet: it
// creates new pods immediately and deletes old ones, unless they are slow. It reports whether it
// changed something.
func (f *fixture) roll() bool {
	f.t.Helper()
	d := &appsv1.Deployment{}
	wanted, template := int32(0), ""
	exists := f.find(resources.DeploymentName(name), d)
	if exists {
		wanted = ptr.Deref(d.Spec.Replicas, 1)
		raw, err := json.Marshal(d.Spec.Template)
		f.must(err)
		template = string(raw)
	}
	did, fresh := false, int32(0)
	for _, pod := range f.pods() {
		switch {
		case pod.Annotations["template"] == template && fresh < wanted && pod.DeletionTimestamp == nil:
			fresh++
		case f.slow && pod.DeletionTimestamp != nil:
		case f.slow:
			// It is terminating while its job continues.
			pod.Finalizers = []string{"test/job"}
			f.must(f.cluster.Update(f.t.Context(), &pod))
			f.must(f.cluster.Delete(f.t.Context(), &pod))
			did = true
		case pod.DeletionTimestamp != nil:
			pod.Finalizers = nil
			f.must(f.cluster.Update(f.t.Context(), &pod))
			did = true
		default:
			f.must(f.cluster.Delete(f.t.Context(), &pod))
			did = true
		}
	}
	for ; fresh < wanted; fresh++ {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			GenerateName: "pod-", Namespace: namespace, Labels: d.Spec.Template.Labels, Annotations: map[string]string{"template": template},
		}}
		pod.Annotations[coderv1alpha1.AnnotationProvisionerKeyID] = d.Spec.Template.Annotations[coderv1alpha1.AnnotationProvisionerKeyID]
		f.must(f.cluster.Create(f.t.Context(), pod))
		did = true
	}
	if !exists {
		return did
	}
	status := appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: wanted, UpdatedReplicas: wanted, ReadyReplicas: wanted, AvailableReplicas: wanted,
	}
	if d.Status.Replicas != status.Replicas || d.Status.ReadyReplicas != status.ReadyReplicas || d.Status.ObservedGeneration != status.ObservedGeneration {
		d.Status = status
		f.must(f.cluster.SubResource("status").Update(f.t.Context(), d))
		did = true
	}
	return did
}

func (f *fixture) pods() []corev1.Pod {
	f.t.Helper()
	list := &corev1.PodList{}
	f.must(f.cluster.List(f.t.Context(), list, client.InNamespace(namespace)))
	return list.Items
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) find(of string, obj client.Object) bool {
	f.t.Helper()
	err := f.cluster.Get(f.t.Context(), types.NamespacedName{Namespace: namespace, Name: of}, obj)
	if err != nil && !apierrors.IsNotFound(err) {
		f.t.Fatal(err)
	}
	return err == nil
}

func (f *fixture) get(of string, obj client.Object) {
	f.t.Helper()
	if !f.find(of, obj) {
		f.t.Fatalf("%T %q does not exist", obj, of)
	}
}

func (f *fixture) provisioner(of ...string) *coderv1alpha1.CoderProvisioner {
	f.t.Helper()
	cr := &coderv1alpha1.CoderProvisioner{}
	f.get(append(of, name)[0], cr)
	return cr
}

func (f *fixture) deployment() *appsv1.Deployment {
	f.t.Helper()
	d := &appsv1.Deployment{}
	f.get("provisioner-gpu", d)
	return d
}

// edit changes the spec like a user.
func (f *fixture) edit(change func(cr *coderv1alpha1.CoderProvisioner)) {
	f.t.Helper()
	cr := f.provisioner()
	change(cr)
	cr.Generation++
	f.must(f.cluster.Update(f.t.Context(), cr))
	f.takeWrites()
}

func (f *fixture) editControlPlane(change func(cp *coderv1alpha1.CoderControlPlane)) {
	f.t.Helper()
	cp := &coderv1alpha1.CoderControlPlane{}
	f.get("coder", cp)
	change(cp)
	status := cp.DeepCopy()
	f.must(f.cluster.Update(f.t.Context(), cp))
	status.ResourceVersion = cp.ResourceVersion
	f.must(f.cluster.SubResource("status").Update(f.t.Context(), status))
}

func (f *fixture) keyNames() string {
	var names []string
	for _, k := range f.coder.ProvisionerKeys("coder") {
		names = append(names, k.Name)
	}
	return strings.Join(names, " ")
}

// asked returns the number of requests to Coder since the last call.
func (f *fixture) asked() int {
	n := 0
	for _, count := range f.coder.Requests() {
		n += count
	}
	f.coder.ResetRequests()
	return n
}

func (f *fixture) forward(d time.Duration) { f.clock.SetTime(f.clock.Now().Add(d)) }

// mustHave checks a condition of the provisioner.
func (f *fixture) mustHave(conditionType string, status metav1.ConditionStatus, reason string, of ...string) metav1.Condition {
	f.t.Helper()
	cr := f.provisioner(of...)
	c := conditions.Find(cr.Status.Conditions, conditionType)
	if c == nil || c.Status != status || c.Reason != reason {
		f.t.Fatalf("condition %s is %+v, want %s/%s; all: %+v", conditionType, c, status, reason, cr.Status.Conditions)
	}
	return *c
}

// mustNotLeak checks that the status, the Deployment and the Events do not contain keys or the
// token.
func (f *fixture) mustNotLeak() {
	f.t.Helper()
	cr, err := json.Marshal(f.provisioner())
	f.must(err)
	d, err := json.Marshal(f.deployment())
	f.must(err)
	seen := string(cr) + string(d) + strings.Join(f.events.all(), "\n")
	for _, k := range f.coder.ProvisionerKeys("coder") {
		if strings.Contains(seen, k.Text) {
			f.t.Errorf("a key is told: %s", seen)
		}
	}
	if strings.Contains(seen, f.token) {
		f.t.Errorf("the token is told: %s", seen)
	}
}

func newProvisioner(changes ...func(*coderv1alpha1.CoderProvisioner)) *coderv1alpha1.CoderProvisioner {
	cr := &coderv1alpha1.CoderProvisioner{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace, UID: "cr-uid", Generation: 1,
			CreationTimestamp: metav1.NewTime(time.Date(2026, 11, 21, 11, 0, 0, 0, time.UTC)),
		},
		Spec: coderv1alpha1.CoderProvisionerSpec{
			ControlPlaneRef: &coderv1alpha1.ControlPlaneReference{Name: "coder"}, OrganizationName: "default",
			Tags: map[string]string{"zone": "a"}, WorkloadSpec: coderv1alpha1.WorkloadSpec{Replicas: ptr.To[int32](2)},
		},
	}
	for _, change := range changes {
		change(cr)
	}
	return cr
}

func newControlPlane() *coderv1alpha1.CoderControlPlane {
	return &coderv1alpha1.CoderControlPlane{
		ObjectMeta: metav1.ObjectMeta{Name: "coder", Namespace: namespace, UID: "cp-uid", Generation: 1},
		Spec:       coderv1alpha1.CoderControlPlaneSpec{Image: "registry.example.com/coder:v2.30.0"},
		Status: coderv1alpha1.CoderControlPlaneStatus{
			URL: coderURL, Image: "registry.example.com/coder:v2.30.0", OperatorAccessReady: true,
			OperatorTokenSecretRef: &coderv1alpha1.TokenSecretReference{Name: "coder-operator-token", Key: "token"},
		},
	}
}

// readyFixture returns a fixture whose provisioner is Ready.
func readyFixture(t testing.TB, changes ...func(*coderv1alpha1.CoderProvisioner)) *fixture {
	t.Helper()
	f := newFixture(t, newProvisioner(changes...), newControlPlane())
	f.settle()
	f.mustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
	return f
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

func eachItem(list client.ObjectList, do func(client.Object)) error {
	return meta.EachListItem(list, func(item runtime.Object) error {
		if obj, ok := item.(client.Object); ok {
			do(obj)
		}
		return nil
	})
}
