package registration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply/applytest"
	"github.com/coder-k8s/coder-k8s/internal/kube/crashtest"
)

const (
	testNamespace = "team"
	accessURL     = "https://coder.example.com"
	tokenSecret   = "sydney-proxy-token"
)

// world contains a cluster, two Coders and the Manager.
type world struct {
	t       *testing.T
	ctx     context.Context
	coder   *coderdtest.Server
	other   *coderdtest.Server
	client  client.Client
	clock   *clocktesting.FakePassiveClock
	manager *Manager
	proxy   *coderv1alpha1.CoderWorkspaceProxy
	healthy bool
	fault   *crashtest.Fault
	writes  int
}

// knownKinds is the scheme of the fake cluster.
var knownKinds = applytest.KindsOf(corev1.AddToScheme, coderv1alpha1.AddToScheme)

func newWorld(t *testing.T, changes ...func(*coderv1alpha1.CoderWorkspaceProxy)) *world {
	t.Helper()
	w := &world{
		t: t, ctx: t.Context(), fault: &crashtest.Fault{}, healthy: true,
		clock: clocktesting.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)),
		proxy: newProxy(changes...),
	}
	w.coder, w.other = newCoder(t), newCoder(t)
	w.client = knownKinds.Cluster(t).WithInterceptorFuncs(w.fault.Cluster(&w.writes)).Build()
	w.restart()
	w.put(w.proxy.DeepCopy())
	w.controlPlane("dev", w.coder)
	w.controlPlane("next", w.other)
	w.secret("owner", map[string]string{"token": w.other.AddUser("ada", "owner")})
	w.fault.Set(0, false)
	return w
}

func newCoder(t *testing.T) *coderdtest.Server {
	coder := coderdtest.New(t, coderdtest.WithLicensing())
	coder.SetFeature(coderd.FeatureWorkspaceProxy, "entitled")
	return coder
}

func newProxy(changes ...func(*coderv1alpha1.CoderWorkspaceProxy)) *coderv1alpha1.CoderWorkspaceProxy {
	proxy := &coderv1alpha1.CoderWorkspaceProxy{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: testNamespace, Name: "sydney", UID: "proxy-uid", Generation: 1,
			CreationTimestamp: metav1.NewTime(time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)),
		},
		Spec: coderv1alpha1.CoderWorkspaceProxySpec{ControlPlaneRef: &coderv1alpha1.ControlPlaneReference{Name: "dev"}},
	}
	for _, change := range changes {
		change(proxy)
	}
	return proxy
}

// controlPlane creates a control plane and the operator's token for it in the cluster.
func (w *world) controlPlane(name string, coder *coderdtest.Server) {
	w.t.Helper()
	w.secret(name+"-operator-token", map[string]string{"token": coder.AddUser("operator-"+name, "owner")})
	cp := &coderv1alpha1.CoderControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: name, UID: types.UID(name + "-uid")},
		Status: coderv1alpha1.CoderControlPlaneStatus{
			URL: coder.URL, OperatorAccessReady: true,
			OperatorTokenSecretRef: &coderv1alpha1.TokenSecretReference{Name: name + "-operator-token", Key: "token"},
		},
	}
	w.put(cp)
}

func (w *world) secret(name string, data map[string]string) {
	w.t.Helper()
	w.put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: name}, StringData: data, Data: bytesOf(data)})
}

func bytesOf(data map[string]string) map[string][]byte {
	out := map[string][]byte{}
	for key, value := range data {
		out[key] = []byte(value)
	}
	return out
}

// restart creates a new Manager with empty state, like a new process.
func (w *world) restart() {
	w.fault.Set(0, false)
	w.manager = &Manager{
		Client: w.client, Reader: w.client, Clock: w.clock,
		NewClient: func(cfg coderd.Config) (*coderd.Client, error) {
			cfg.Transport = w.fault
			return coderd.New(cfg)
		},
	}
}

// pass runs Ensure once, stores what the status stores, and checks that messages contain no
// secrets.
func (w *world) pass() Result {
	w.t.Helper()
	result, err := w.try()
	if err != nil {
		w.t.Fatalf("Ensure: %v", err)
	}
	return result
}

func (w *world) try() (Result, error) {
	w.t.Helper()
	result, err := w.manager.Ensure(w.ctx, Request{Proxy: w.proxy, AccessURL: w.accessURL(), Healthy: w.healthy})
	w.checkSilence(result, err)
	if err == nil {
		w.proxy.Status.ProxyID, w.proxy.Status.ProxyName = result.ProxyID, result.ProxyName
	}
	return result, err
}

// accessURL returns the access URL of the Coder that the spec names.
func (w *world) accessURL() string {
	if w.proxy.Spec.ProxySessionTokenSecretRef != nil {
		return w.coder.URL
	}
	return accessURL
}

func (w *world) remove() Result {
	w.t.Helper()
	result, err := w.manager.Remove(w.ctx, Request{Proxy: w.proxy})
	w.checkSilence(result, err)
	if err != nil {
		w.t.Fatalf("Remove: %v", err)
	}
	return result
}

// settle runs passes until one is Ready and writes nothing.
func (w *world) settle() Result {
	w.t.Helper()
	var result Result
	for range 12 {
		before := w.writes
		if result = w.pass(); result.State == Ready && w.writes == before {
			return result
		}
	}
	w.t.Fatalf("not Ready after 12 passes: %s %s: %s", result.State, result.Reason, result.Message)
	return result
}

// checkSilence checks that messages, errors and Events contain no tokens.
func (w *world) checkSilence(result Result, err error) {
	w.t.Helper()
	said := fmt.Sprintf("%s %v %v", result.Message, err, result.LeftBehind)
	for _, e := range result.Events {
		said += " " + e.Message
	}
	list := &corev1.SecretList{}
	if err := w.client.List(context.Background(), list); err != nil {
		w.t.Fatal(err)
	}
	for _, secret := range list.Items {
		for _, value := range secret.Data {
			if len(value) > 0 && strings.Contains(said, string(value)) {
				w.t.Errorf("a secret is told: %s", said)
			}
		}
	}
}

func (w *world) get(name string, obj client.Object) bool {
	w.t.Helper()
	err := w.client.Get(w.ctx, client.ObjectKey{Namespace: testNamespace, Name: name}, obj)
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	return err == nil
}

// read returns a Secret that must exist.
func (w *world) read(name string) *corev1.Secret {
	w.t.Helper()
	secret := &corev1.Secret{}
	if !w.get(name, secret) {
		w.t.Fatalf("Secret %q does not exist", name)
	}
	return secret
}

func (w *world) put(obj client.Object) {
	w.t.Helper()
	if err := w.client.Create(w.ctx, obj); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) change(obj client.Object) {
	w.t.Helper()
	if err := w.client.Update(w.ctx, obj); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) drop(obj client.Object) {
	w.t.Helper()
	if err := w.client.Delete(w.ctx, obj); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) token() string {
	w.t.Helper()
	return string(w.read(tokenSecret).Data["token"])
}

// only returns the single proxy of a Coder.
func (w *world) only(coder *coderdtest.Server) coderdtest.Proxy {
	w.t.Helper()
	proxies := coder.Proxies()
	if len(proxies) != 1 {
		w.t.Fatalf("Coder has the proxies %+v, want one", proxies)
	}
	return proxies[0]
}

// checkWhole checks that there is one proxy that matches the spec, and that the Secret contains its
// token.
func (w *world) checkWhole(coder *coderdtest.Server, name, displayName, icon string) {
	w.t.Helper()
	got := w.only(coder)
	secret := w.read(tokenSecret)
	if got.Name != name || got.DisplayName != displayName || got.Icon != icon {
		w.t.Errorf("Coder has name %q, display name %q, icon %q, want %q, %q, %q", got.Name, got.DisplayName, got.Icon, name, displayName, icon)
	}
	if token := string(secret.Data["token"]); token != got.Token {
		w.t.Error("the Secret does not hold the token that Coder accepts")
	}
	if id := secret.Annotations[AnnotationProxyID]; id != got.ID.String() {
		w.t.Errorf("the Secret is about proxy %q, Coder has %q", id, got.ID)
	}
	if former := secret.Annotations[AnnotationFormer]; former != "" {
		w.t.Errorf("former registrations are left: %s", former)
	}
}

// asked returns the number of requests to the first Coder since the last call.
func (w *world) asked() int {
	n := 0
	for _, count := range w.coder.Requests() {
		n += count
	}
	w.coder.ResetRequests()
	return n
}

func (w *world) forward(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

func wantState(t *testing.T, got Result, state State, reason string) {
	t.Helper()
	if got.State != state || got.Reason != reason {
		t.Fatalf("got %s %s (%s), want %s %s", got.State, got.Reason, got.Message, state, reason)
	}
}

func reasons(r Result) string {
	var out []string
	for _, e := range r.Events {
		out = append(out, e.Reason)
	}
	return strings.Join(out, ",")
}
