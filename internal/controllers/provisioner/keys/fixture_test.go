package keys

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure/ensuretest"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

const (
	testName     = "gpu"
	secretName   = "gpu-provisioner-key"
	organization = "coder"
	feature      = coderd.FeatureExternalProvisioners
)

// fixture contains a cluster, a Coder with a license, and the Manager. It also acts as the
// reconciler: it stores the status, and rolls the pods.
type fixture struct {
	*ensuretest.Fixture
	token   string
	manager *Manager
	cr      *coderv1alpha1.CoderProvisioner
	// cp is nil if there is no control plane.
	cp *coderv1alpha1.CoderControlPlane
	// pods are the ids of the keys that pods use. The test must end slow pods.
	pods []string
	slow bool
	// said contains all Events.
	said []string
}

// knownKinds is the scheme of the fake cluster.
var knownKinds = kubetest.KindsOf(corev1.AddToScheme, coderv1alpha1.AddToScheme)

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{
		Fixture: ensuretest.New(t, knownKinds, coderdtest.WithLicensing()),
		cr: &coderv1alpha1.CoderProvisioner{
			ObjectMeta: metav1.ObjectMeta{Namespace: ensuretest.Namespace, Name: testName, UID: "cr-uid", Generation: 1},
			Spec: coderv1alpha1.CoderProvisionerSpec{
				ControlPlaneRef: &coderv1alpha1.ControlPlaneReference{Name: "dev"}, Tags: map[string]string{"zone": "a"},
			},
		},
		cp: &coderv1alpha1.CoderControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: ensuretest.Namespace, Name: "dev", UID: "cp-uid"}},
	}
	f.Coder.SetFeature(feature, "entitled")
	f.token = f.Coder.AddUser("operator", "owner")
	f.Create(f.cr.DeepCopy())
	f.TakeWrites()
	f.restart()
	return f
}

// restart creates a new Manager with empty state, like a new process.
func (f *fixture) restart() {
	f.Fault.Set(0, false)
	f.manager = &Manager{Client: f.Cluster, Clock: f.Clock, Connect: f.connect}
}

func (f *fixture) connect(_ context.Context, cp *coderv1alpha1.CoderControlPlane) (*coderd.Client, error) {
	if cp.Spec.OperatorAccess.Disabled {
		return nil, ensure.Unavailable(coderv1alpha1.ReasonOperatorAccessDisabled, time.Minute, "operator access is disabled")
	}
	return f.NewClient(coderd.Config{URL: f.Coder.URL, Token: f.token})
}

func (f *fixture) request() Request {
	return Request{
		Provisioner: f.cr.DeepCopy(), ControlPlane: f.cp,
		Usage: func(context.Context) (Usage, error) { return Usage{KeyIDs: f.pods, Settled: true}, nil },
	}
}

// ensure runs Ensure once, writes the status and rolls the pods.
func (f *fixture) ensure() Result {
	f.T.Helper()
	result, err := f.tryEnsure()
	f.Must(err)
	return result
}

func (f *fixture) tryEnsure() (Result, error) {
	f.T.Helper()
	result, err := f.manager.Ensure(f.Ctx, f.request())
	if err == nil && result.Claimed {
		// The next pass creates the key.
		f.cr.Status.ControlPlaneRefName = f.cr.Spec.ControlPlaneRef.Name
		result, err = f.manager.Ensure(f.Ctx, f.request())
	}
	f.hear(result, err)
	if r := result.Record; err == nil && r != nil {
		status := &f.cr.Status
		status.ProvisionerKeyID, status.ProvisionerKeyName = r.ID, r.Name
		status.OrganizationID, status.OrganizationName = r.OrganizationID, result.OrganizationName
		if !f.slow {
			f.pods = []string{r.ID}
		}
	}
	return result, err
}

func (f *fixture) retire() Result { return f.run(f.manager.Retire) }

func (f *fixture) run(do func(context.Context, Request) (Result, error)) Result {
	f.T.Helper()
	result, err := do(f.Ctx, f.request())
	f.hear(result, err)
	f.Must(err)
	return result
}

// pass does what the reconciler does in one pass.
func (f *fixture) pass() Result {
	f.T.Helper()
	result := f.ensure()
	f.retire()
	return result
}

// settle runs passes until one writes nothing and the key is ready.
func (f *fixture) settle() Result {
	f.T.Helper()
	var result Result
	for range 12 {
		before := f.Writes()
		if result = f.pass(); result.Key.Status == metav1.ConditionTrue && f.Writes() == before {
			return result
		}
		if result.Key.Status != metav1.ConditionTrue {
			f.Forward(result.RequeueAfter)
		}
	}
	f.T.Fatalf("not ready after 12 passes: %+v", result.Key)
	return result
}

// hear records Events, and checks that messages and errors contain no secrets.
func (f *fixture) hear(result Result, err error) {
	f.T.Helper()
	for _, e := range result.Events {
		f.said = append(f.said, e.Type+" "+e.Reason+": "+e.Message)
	}
	values := map[string]bool{f.token: true}
	for _, k := range f.keys() {
		values[k.Text] = true
	}
	f.CheckSilence(values, result.Events, err, result.Key.Message, result.Secret.Message, result.Entitled.Message)
}

func (f *fixture) keys() []coderdtest.ProvisionerKey { return f.Coder.ProvisionerKeys(organization) }

func (f *fixture) keyNames() string {
	var names []string
	for _, k := range f.keys() {
		names = append(names, k.Name)
	}
	return strings.Join(names, " ")
}

// checkWhole checks that Coder has one key with the tags of the spec, and that the Secret contains
// that key and no unfinished work.
func (f *fixture) checkWhole(name string) {
	f.T.Helper()
	all := f.keys()
	if len(all) != 1 {
		f.T.Fatalf("keys in Coder: %q, want one", f.keyNames())
	}
	k, secret := all[0], f.Secret(secretName)
	s := readStored(secret, "key")
	switch {
	case name != "" && k.Name != name:
		f.T.Errorf("the key has the name %q, want %q", k.Name, name)
	case s.text != k.Text:
		f.T.Error("the Secret holds another key than the one in Coder")
	case s.record == nil || s.record.ID != k.ID.String() || s.record.Name != k.Name:
		f.T.Errorf("the Secret tells of %+v, and the key is %s %s", s.record, k.ID, k.Name)
	case s.intent != nil || len(s.replaced) > 0:
		f.T.Errorf("something is unfinished: %v", secret.Annotations)
	case len(secret.Data) != 1:
		f.T.Errorf("the Secret has %d keys", len(secret.Data))
	case !maps.Equal(k.Tags, f.cr.Spec.Tags):
		f.T.Errorf("the key has the tags %v, want %v", k.Tags, f.cr.Spec.Tags)
	}
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
