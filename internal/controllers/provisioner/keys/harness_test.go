package keys

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure/ensuretest"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply/applytest"
)

const (
	testName     = "gpu"
	secretName   = "gpu-provisioner-key"
	organization = "coder"
	feature      = coderd.FeatureExternalProvisioners
)

// world contains a cluster, a Coder with a license, and the Manager. It also acts as the
// reconciler: it stores the status, and rolls the pods.
type world struct {
	*ensuretest.World
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
var knownKinds = applytest.KindsOf(corev1.AddToScheme, coderv1alpha1.AddToScheme)

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		World: ensuretest.New(t, knownKinds, coderdtest.WithLicensing()),
		cr: &coderv1alpha1.CoderProvisioner{
			ObjectMeta: metav1.ObjectMeta{Namespace: ensuretest.Namespace, Name: testName, UID: "cr-uid", Generation: 1},
			Spec: coderv1alpha1.CoderProvisionerSpec{
				ControlPlaneRef: &coderv1alpha1.ControlPlaneReference{Name: "dev"}, Tags: map[string]string{"zone": "a"},
			},
		},
		cp: &coderv1alpha1.CoderControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: ensuretest.Namespace, Name: "dev", UID: "cp-uid"}},
	}
	w.Coder.SetFeature(feature, "entitled")
	w.token = w.Coder.AddUser("operator", "owner")
	w.restart()
	return w
}

// restart creates a new Manager with empty state, like a new process.
func (w *world) restart() {
	w.Fault.Set(0, false)
	w.manager = &Manager{Client: w.Client, Clock: w.Clock, Connect: w.connect}
}

func (w *world) connect(_ context.Context, cp *coderv1alpha1.CoderControlPlane) (*coderd.Client, error) {
	if cp.Spec.OperatorAccess.Disabled {
		return nil, ensure.Unavailable(coderv1alpha1.ReasonOperatorAccessDisabled, time.Minute, "operator access is disabled")
	}
	return w.NewClient(coderd.Config{URL: w.Coder.URL, Token: w.token})
}

func (w *world) request() Request {
	return Request{
		Provisioner: w.cr.DeepCopy(), ControlPlane: w.cp,
		Usage: func(context.Context) (Usage, error) { return Usage{KeyIDs: w.pods, Settled: true}, nil },
	}
}

// ensure runs Ensure once, writes the status and rolls the pods.
func (w *world) ensure() Result {
	w.T.Helper()
	result, err := w.tryEnsure()
	w.Must(err)
	return result
}

func (w *world) tryEnsure() (Result, error) {
	w.T.Helper()
	result, err := w.manager.Ensure(w.Ctx, w.request())
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
	w.T.Helper()
	result, err := do(w.Ctx, w.request())
	w.hear(result, err)
	w.Must(err)
	return result
}

// pass does what the reconciler does in one pass.
func (w *world) pass() Result {
	w.T.Helper()
	result := w.ensure()
	w.retire()
	return result
}

// settle runs passes until one writes nothing and the key is ready.
func (w *world) settle() Result {
	w.T.Helper()
	var result Result
	for range 12 {
		before := w.Writes
		if result = w.pass(); result.Key.Status == metav1.ConditionTrue && w.Writes == before {
			return result
		}
		if result.Key.Status != metav1.ConditionTrue {
			w.Forward(result.RequeueAfter)
		}
	}
	w.T.Fatalf("not ready after 12 passes: %+v", result.Key)
	return result
}

// hear records Events, and checks that messages and errors contain no secrets.
func (w *world) hear(result Result, err error) {
	w.T.Helper()
	for _, e := range result.Events {
		w.said = append(w.said, e.Type+" "+e.Reason+": "+e.Message)
	}
	values := map[string]bool{w.token: true}
	for _, k := range w.keys() {
		values[k.Text] = true
	}
	w.CheckSilence(values, result.Events, err, result.Key.Message, result.Secret.Message, result.Entitled.Message)
}

func (w *world) keys() []coderdtest.ProvisionerKey { return w.Coder.ProvisionerKeys(organization) }

func (w *world) keyNames() string {
	var names []string
	for _, k := range w.keys() {
		names = append(names, k.Name)
	}
	return strings.Join(names, " ")
}

// checkWhole checks that Coder has one key with the tags of the spec, and that the Secret contains
// that key and no unfinished work.
func (w *world) checkWhole(name string) {
	w.T.Helper()
	all := w.keys()
	if len(all) != 1 {
		w.T.Fatalf("keys in Coder: %q, want one", w.keyNames())
	}
	k, secret := all[0], w.Secret(w.secretName())
	s := readStored(secret, "key")
	switch {
	case name != "" && k.Name != name:
		w.T.Errorf("the key has the name %q, want %q", k.Name, name)
	case s.text != k.Text:
		w.T.Error("the Secret holds another key than the one in Coder")
	case s.record == nil || s.record.ID != k.ID.String() || s.record.Name != k.Name:
		w.T.Errorf("the Secret tells of %+v, and the key is %s %s", s.record, k.ID, k.Name)
	case s.intent != nil || len(s.replaced) > 0 || len(s.oldFields) > 0:
		w.T.Errorf("something is unfinished: %v", secret.Annotations)
	case len(secret.Data) != 1:
		w.T.Errorf("the Secret has %d keys", len(secret.Data))
	case fmt.Sprint(k.Tags) != fmt.Sprint(w.cr.Spec.Tags):
		w.T.Errorf("the key has the tags %v, want %v", k.Tags, w.cr.Spec.Tags)
	}
}

func (w *world) secretName() string {
	if name := w.cr.Spec.Key.SecretName; name != "" {
		return name
	}
	return secretName
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
