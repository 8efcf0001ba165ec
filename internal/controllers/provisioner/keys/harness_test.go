package keys

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply/applytest"
	"github.com/coder-k8s/coder-k8s/internal/kube/crashtest"
)

const (
	testNamespace = "team"
	testName      = "gpu"
	secretName    = "gpu-provisioner-key"
	organization  = "coder"
	feature       = coderd.FeatureExternalProvisioners
)

// world contains a cluster, a Coder with a license, and the Manager. It also acts as the
// reconciler: it stores the status, and rolls the pods.
type world struct {
	t       *testing.T
	ctx     context.Context
	coder   *coderdtest.Server
	token   string
	client  client.Client
	clock   *clocktesting.FakePassiveClock
	manager *Manager
	cr      *coderv1alpha1.CoderProvisioner
	// cp is nil if there is no control plane.
	cp    *coderv1alpha1.CoderControlPlane
	fault *crashtest.Fault
	// writes counts the writes to the cluster.
	writes int
	// pods are the ids of the keys that pods use. The test must end slow pods.
	pods []string
	slow bool
	// said contains all Events.
	said []string
}

// knownKinds is the scheme of the fake cluster.
var knownKinds = applytest.KindsOf(corev1.AddToScheme, coderv1alpha1.AddToScheme)

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, ctx: t.Context(), fault: &crashtest.Fault{},
		clock: clocktesting.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)),
		cr: &coderv1alpha1.CoderProvisioner{
			ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: testName, UID: "cr-uid", Generation: 1},
			Spec: coderv1alpha1.CoderProvisionerSpec{
				ControlPlaneRef: &coderv1alpha1.ControlPlaneReference{Name: "dev"}, Tags: map[string]string{"zone": "a"},
			},
		},
		cp: &coderv1alpha1.CoderControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "dev", UID: "cp-uid"}},
	}
	w.coder = coderdtest.New(t, coderdtest.WithClock(w.clock), coderdtest.WithLicensing())
	w.coder.SetFeature(feature, "entitled")
	w.token = w.coder.AddUser("operator", "owner")
	w.client = knownKinds.Cluster(t).WithInterceptorFuncs(w.fault.Cluster(&w.writes)).Build()
	w.restart()
	return w
}

// restart creates a new Manager with empty state, like a new process.
func (w *world) restart() {
	w.fault.Set(0, false)
	w.manager = &Manager{Client: w.client, Clock: w.clock, Connect: w.connect}
}

func (w *world) connect(_ context.Context, cp *coderv1alpha1.CoderControlPlane) (API, error) {
	if cp.Spec.OperatorAccess.Disabled {
		return nil, ensure.Unavailable(coderv1alpha1.ReasonOperatorAccessDisabled, time.Minute, "operator access is disabled")
	}
	return coderd.New(coderd.Config{URL: w.coder.URL, Token: w.token, Transport: w.fault})
}

func (w *world) request() Request {
	return Request{
		Provisioner: w.cr.DeepCopy(), ControlPlane: w.cp,
		Usage: func(context.Context) (Usage, error) { return Usage{KeyIDs: w.pods, Settled: true}, nil },
	}
}

// ensure runs Ensure once, writes the status and rolls the pods.
func (w *world) ensure() Result {
	w.t.Helper()
	result, err := w.tryEnsure()
	if err != nil {
		w.t.Fatalf("Ensure: %v", err)
	}
	return result
}

func (w *world) tryEnsure() (Result, error) {
	w.t.Helper()
	result, err := w.manager.Ensure(w.ctx, w.request())
	w.hear(result, err)
	if r := result.Record; err == nil && r != nil {
		status := &w.cr.Status
		status.ProvisionerKeyID, status.ProvisionerKeyName = r.ID, r.Name
		status.OrganizationID, status.ControlPlaneRefName = r.OrganizationID, r.ControlPlane
		status.OrganizationName = result.OrganizationName
		if !w.slow {
			w.pods = []string{r.ID}
		}
	}
	return result, err
}

func (w *world) retire() Result { return w.run(w.manager.Retire) }

func (w *world) run(do func(context.Context, Request) (Result, error)) Result {
	w.t.Helper()
	result, err := do(w.ctx, w.request())
	w.hear(result, err)
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

// pass does what the reconciler does in one pass.
func (w *world) pass() Result {
	w.t.Helper()
	result := w.ensure()
	w.retire()
	return result
}

// settle runs passes until one writes nothing and the key is ready.
func (w *world) settle() Result {
	w.t.Helper()
	var result Result
	for range 12 {
		before := w.writes
		if result = w.pass(); result.Key.Status == metav1.ConditionTrue && w.writes == before {
			return result
		}
		if result.Key.Status != metav1.ConditionTrue {
			w.clock.SetTime(w.clock.Now().Add(result.RequeueAfter))
		}
	}
	w.t.Fatalf("not ready after 12 passes: %+v", result.Key)
	return result
}

// hear records Events, and checks that messages and errors contain no secrets.
func (w *world) hear(result Result, err error) {
	w.t.Helper()
	said := fmt.Sprintf("%v %s %s %s", err, result.Key.Message, result.Secret.Message, result.Entitled.Message)
	for _, e := range result.Events {
		w.said = append(w.said, e.Type+" "+e.Reason+": "+e.Message)
		said += " " + e.Message
	}
	for _, k := range w.keys() {
		if strings.Contains(said, k.Text) {
			w.t.Errorf("a key is told: %s", said)
		}
	}
	if strings.Contains(said, w.token) {
		w.t.Errorf("the token is told: %s", said)
	}
}

func (w *world) keys() []coderdtest.ProvisionerKey { return w.coder.ProvisionerKeys(organization) }

func (w *world) keyNames() string {
	var names []string
	for _, k := range w.keys() {
		names = append(names, k.Name)
	}
	return strings.Join(names, " ")
}

func (w *world) secret(name string) *corev1.Secret {
	w.t.Helper()
	secret := &corev1.Secret{}
	err := w.client.Get(w.ctx, client.ObjectKey{Namespace: testNamespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return secret
}

func (w *world) delete(name string) {
	w.t.Helper()
	if err := w.client.Delete(w.ctx, w.secret(name)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) update(secret *corev1.Secret) {
	w.t.Helper()
	if err := w.client.Update(w.ctx, secret); err != nil {
		w.t.Fatal(err)
	}
}

// checkWhole checks that Coder has one key with the tags of the spec, and that the Secret contains
// that key and no unfinished work.
func (w *world) checkWhole(name string) {
	w.t.Helper()
	all := w.keys()
	if len(all) != 1 {
		w.t.Fatalf("keys in Coder: %q, want one", w.keyNames())
	}
	k, secret := all[0], w.secret(w.secretName())
	if secret == nil {
		w.t.Fatal("no Secret")
	}
	s := readStored(secret, "key")
	switch {
	case name != "" && k.Name != name:
		w.t.Errorf("the key has the name %q, want %q", k.Name, name)
	case s.text != k.Text:
		w.t.Error("the Secret holds another key than the one in Coder")
	case s.record == nil || s.record.ID != k.ID.String() || s.record.Name != k.Name:
		w.t.Errorf("the Secret tells of %+v, and the key is %s %s", s.record, k.ID, k.Name)
	case s.intent != nil || len(s.replaced) > 0 || len(s.oldFields) > 0:
		w.t.Errorf("something is unfinished: %v", secret.Annotations)
	case len(secret.Data) != 1:
		w.t.Errorf("the Secret has %d keys", len(secret.Data))
	case fmt.Sprint(k.Tags) != fmt.Sprint(w.cr.Spec.Tags):
		w.t.Errorf("the key has the tags %v, want %v", k.Tags, w.cr.Spec.Tags)
	}
}

func (w *world) secretName() string {
	if name := w.cr.Spec.Key.SecretName; name != "" {
		return name
	}
	return secretName
}

func (w *world) forward(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

// asked returns the number of requests to Coder since the last call.
func (w *world) asked() int {
	n := 0
	for _, count := range w.coder.Requests() {
		n += count
	}
	w.coder.ResetRequests()
	return n
}

func wantKey(t *testing.T, got Result, status metav1.ConditionStatus, reason string) {
	t.Helper()
	if got.Key.Status != status || got.Key.Reason != reason {
		t.Fatalf("the key is %s %s (%s), want %s %s", got.Key.Status, got.Key.Reason, got.Key.Message, status, reason)
	}
}

func count(list []string, prefix string) int {
	n := 0
	for _, entry := range list {
		if strings.HasPrefix(entry, prefix) {
			n++
		}
	}
	return n
}
