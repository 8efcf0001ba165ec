package controllertest

import (
	"encoding/json"
	"fmt"
	"reflect"
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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	recordsv1alpha1 "github.com/coder-k8s/coder-k8s/api/records/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// mostPasses is more than the number of passes that any change needs.
const mostPasses = 20

// Options describe a controller and the object under test.
type Options[O client.Object] struct {
	// Name is the name of the object under test, and Deployment the name of its Deployment.
	Name       types.NamespacedName
	Deployment string
	// Status returns the shared part of the status of an object.
	Status func(O) *coderv1alpha1.WorkloadStatus
	// Further adds the indexes of the kind to the cluster. It may be nil.
	Further func(*fake.ClientBuilder)
}

// Fixture runs a controller for objects of type O. Its cluster contains the objects of Build.
type Fixture[O client.Object] struct {
	*kubetest.Fixture
	Options Options[O]
	Events  *Events
	// Reconciler is the controller.
	Reconciler reconcile.Reconciler
	// World does the work of Kubernetes during Settle, and reports whether it changed something. It
	// may be nil.
	World func() bool
}

// New returns a fixture without a cluster. Build creates it.
func New[O client.Object](t testing.TB, options Options[O]) *Fixture[O] {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	return &Fixture[O]{Fixture: kubetest.NewFixture(t, options.Name.Namespace, now), Options: options, Events: &Events{}}
}

// kinds is the scheme of the clusters. A fake cluster iterates over all its kinds at each write,
// so they are only those of the groups that the operator uses.
var kinds = kubetest.KindsOf(corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
	rbacv1.AddToScheme, coderv1alpha1.AddToScheme, recordsv1alpha1.AddToScheme, gatewayv1.Install, monitoringv1.AddToScheme)

// Build creates the cluster with objects.
func (f *Fixture[O]) Build(objects ...client.Object) {
	f.T.Helper()
	f.Fixture.Build(f.NewCluster().WithObjects(objects...))
}

// NewCluster returns a builder of a cluster with the indexes of the manager's cache.
func (f *Fixture[O]) NewCluster() *fake.ClientBuilder {
	f.T.Helper()
	builder := kinds.Cluster(f.T).WithReturnManagedFields().WithStatusSubresource(
		&coderv1alpha1.CoderControlPlane{}, &coderv1alpha1.CoderProvisioner{}, &coderv1alpha1.CoderWorkspaceProxy{},
		&coderv1alpha1.CoderTemplateTest{}, &coderv1alpha1.CoderBackup{}, &coderv1alpha1.CoderBackupSchedule{}, &appsv1.Deployment{}, &batchv1.Job{}, &gatewayv1.HTTPRoute{})
	if f.Options.Further != nil {
		f.Options.Further(builder)
	}
	return builder
}

// Try runs one pass over the object under test, or over another one in its namespace.
func (f *Fixture[O]) Try(name ...string) (ctrl.Result, error) {
	return f.Reconciler.Reconcile(f.T.Context(), ctrl.Request{NamespacedName: f.key(name)})
}

// Reconcile is Try for a pass that succeeds.
func (f *Fixture[O]) Reconcile() ctrl.Result {
	f.T.Helper()
	result, err := f.Try()
	if err != nil {
		f.T.Fatalf("reconciling: %v", err)
	}
	return result
}

// Settle reconciles, and lets the world work, until a pass writes nothing.
func (f *Fixture[O]) Settle() ctrl.Result {
	f.T.Helper()
	for range mostPasses {
		f.world()
		f.TakeWrites()
		result := f.Reconcile()
		if len(f.TakeWrites()) == 0 && !f.world() {
			f.TakeWrites()
			return result
		}
	}
	f.T.Fatalf("%d passes, and still something to write", mostPasses)
	return ctrl.Result{}
}

func (f *Fixture[O]) world() (busy bool) {
	if f.World != nil {
		f.Fault.Without(func() { busy = f.World() })
	}
	return busy
}

func (f *Fixture[O]) key(name []string) types.NamespacedName {
	key := f.Options.Name
	if len(name) > 0 {
		key.Name = name[0]
	}
	return key
}

// Object returns the object under test, or another one of the kind.
func (f *Fixture[O]) Object(name ...string) O {
	f.T.Helper()
	obj := f.empty()
	f.Get(f.key(name).Name, obj)
	return obj
}

func (f *Fixture[O]) empty() O {
	return reflect.New(reflect.TypeFor[O]().Elem()).Interface().(O)
}

// Edit changes the spec like a user.
func (f *Fixture[O]) Edit(change func(O)) {
	f.T.Helper()
	obj := f.Object()
	change(obj)
	obj.SetGeneration(obj.GetGeneration() + 1)
	f.Update(obj)
}

// Delete deletes the object under test. The time of the request is that of the clock afterwards.
func (f *Fixture[O]) Delete() {
	f.T.Helper()
	f.Remove(f.Object())
	f.Clock.SetTime(f.Object().GetDeletionTimestamp().Time)
}

// Gone reports whether the object under test no longer exists.
func (f *Fixture[O]) Gone() bool {
	f.T.Helper()
	return !f.Has(f.Options.Name.Name, f.empty())
}

// Deployment returns the Deployment of the object under test.
func (f *Fixture[O]) Deployment() *appsv1.Deployment {
	f.T.Helper()
	d := &appsv1.Deployment{}
	f.Get(f.Options.Deployment, d)
	return d
}

// PodsReady updates the status of the Deployment like the Deployment controller and the kubelet. It
// reports whether that was another one before.
func (f *Fixture[O]) PodsReady(ready int32) (changed bool) {
	f.T.Helper()
	d := f.Deployment()
	before := d.Status.DeepCopy()
	d.Status = availableStatus(d, ready)
	if changed = !reflect.DeepEqual(*before, d.Status); changed {
		f.UpdateStatus(d)
	}
	return changed
}

// MustHave checks a condition of the object under test, or of another one of the kind.
func (f *Fixture[O]) MustHave(conditionType string, status metav1.ConditionStatus, reason string, name ...string) metav1.Condition {
	f.T.Helper()
	all := f.Options.Status(f.Object(name...)).Conditions
	c := meta.FindStatusCondition(all, conditionType)
	if c == nil || c.Status != status || c.Reason != reason {
		f.T.Fatalf("condition %s is %+v, want %s/%s; all: %+v", conditionType, c, status, reason, all)
	}
	return *c
}

// MustNotHave checks that the object under test does not have a condition.
func (f *Fixture[O]) MustNotHave(conditionType string) {
	f.T.Helper()
	if c := meta.FindStatusCondition(f.Options.Status(f.Object()).Conditions, conditionType); c != nil {
		f.T.Errorf("condition %+v", *c)
	}
}

// MustBe checks the kstatus of the object under test, on which tools wait.
func (f *Fixture[O]) MustBe(when, want string) {
	f.T.Helper()
	got, err := kstatusOf(f.Object())
	f.Must(err)
	if got != want {
		f.T.Errorf("%s it is %s, want %s; conditions %+v", when, got, want, f.Options.Status(f.Object()).Conditions)
	}
}

// MustNotExpose checks that the object under test, the Events and further objects do not contain
// secrets.
func (f *Fixture[O]) MustNotExpose(secrets []string, further ...client.Object) {
	f.T.Helper()
	seen := strings.Join(f.Events.All(), "\n")
	for _, obj := range append(further, f.Object()) {
		raw, err := json.Marshal(obj)
		f.Must(err)
		seen += string(raw)
	}
	for _, secret := range secrets {
		if secret != "" && strings.Contains(seen, secret) {
			f.T.Errorf("a secret is exposed: %s", seen)
		}
	}
}

// Secret returns a Secret.
func Secret(namespace, name string, data map[string]string) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}, Data: map[string][]byte{},
	}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	return secret
}

// The results of kstatus, with which Flux, Helm, kpt and others decide whether an object is ready.
const (
	KstatusInProgress  = string(status.InProgressStatus)
	KstatusCurrent     = string(status.CurrentStatus)
	KstatusFailed      = string(status.FailedStatus)
	KstatusTerminating = string(status.TerminatingStatus)
)

// kstatusOf returns the result of kstatus for an object in the form that the API server returns.
func kstatusOf(obj client.Object) (string, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return "", fmt.Errorf("converting %T: %w", obj, err)
	}
	result, err := status.Compute(&unstructured.Unstructured{Object: content})
	if err != nil {
		return "", fmt.Errorf("judging %T: %w", obj, err)
	}
	return string(result.Status), nil
}

// Events records Events as "type reason: note". It implements events.EventRecorder.
type Events struct {
	mu  sync.Mutex
	all []string
}

// Eventf implements events.EventRecorder.
func (e *Events) Eventf(_, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, eventType+" "+reason+": "+fmt.Sprintf(note, args...))
}

// All returns all Events.
func (e *Events) All() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.all...)
}

// Count returns the number of Events that begin with a text.
func (e *Events) Count(prefix string) int {
	n := 0
	for _, event := range e.All() {
		if strings.HasPrefix(event, prefix) {
			n++
		}
	}
	return n
}
