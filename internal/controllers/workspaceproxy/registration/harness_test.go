package registration

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure/ensuretest"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply/applytest"
)

const (
	accessURL   = "https://coder.example.com"
	tokenSecret = "sydney-proxy-token"
)

// world contains a cluster, two Coders and the Manager.
type world struct {
	*ensuretest.World
	other   *coderdtest.Server
	manager *Manager
	proxy   *coderv1alpha1.CoderWorkspaceProxy
	healthy bool
}

// knownKinds is the scheme of the fake cluster.
var knownKinds = applytest.KindsOf(corev1.AddToScheme, coderv1alpha1.AddToScheme)

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		World: ensuretest.New(t, knownKinds, coderdtest.WithLicensing()), healthy: true,
		other: coderdtest.New(t, coderdtest.WithLicensing()), proxy: newProxy(),
	}
	for _, coder := range []*coderdtest.Server{w.Coder, w.other} {
		coder.SetFeature(coderd.FeatureWorkspaceProxy, "entitled")
	}
	w.restart()
	w.Create(w.proxy.DeepCopy())
	w.controlPlane("dev", w.Coder)
	w.controlPlane("next", w.other)
	w.secret("owner", map[string]string{"token": w.other.AddUser("ada", "owner")})
	w.Fault.Set(0, false)
	return w
}

func newProxy(changes ...func(*coderv1alpha1.CoderWorkspaceProxy)) *coderv1alpha1.CoderWorkspaceProxy {
	proxy := &coderv1alpha1.CoderWorkspaceProxy{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ensuretest.Namespace, Name: "sydney", UID: "proxy-uid", Generation: 1,
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
	w.T.Helper()
	w.secret(name+"-operator-token", map[string]string{"token": coder.AddUser("operator-"+name, "owner")})
	cp := &coderv1alpha1.CoderControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: ensuretest.Namespace, Name: name, UID: types.UID(name + "-uid")},
		Status: coderv1alpha1.CoderControlPlaneStatus{
			URL: coder.URL, OperatorAccessReady: true,
			OperatorTokenSecretRef: &coderv1alpha1.TokenSecretReference{Name: name + "-operator-token", Key: "token"},
		},
	}
	w.Create(cp)
}

func (w *world) secret(name string, data map[string]string) {
	w.T.Helper()
	w.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ensuretest.Namespace, Name: name}, StringData: data, Data: bytesOf(data)})
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
	w.Fault.Set(0, false)
	w.manager = &Manager{Client: w.Client, Reader: w.Client, Clock: w.Clock, NewClient: w.NewClient}
}

// pass runs Ensure once, stores what the status stores, and checks that messages contain no
// secrets.
func (w *world) pass() Result {
	w.T.Helper()
	result, err := w.try()
	w.Must(err)
	return result
}

func (w *world) try() (Result, error) {
	w.T.Helper()
	result, err := w.manager.Ensure(w.Ctx, Request{Proxy: w.proxy, AccessURL: w.accessURL(), Healthy: w.healthy})
	w.checkSilence(result, err)
	if err == nil {
		w.proxy.Status.ProxyID, w.proxy.Status.ProxyName = result.ProxyID, result.ProxyName
	}
	return result, err
}

// accessURL returns the access URL of the Coder that the spec names.
func (w *world) accessURL() string {
	if w.proxy.Spec.ProxySessionTokenSecretRef != nil {
		return w.Coder.URL
	}
	return accessURL
}

func (w *world) remove() Result {
	w.T.Helper()
	result, err := w.manager.Remove(w.Ctx, Request{Proxy: w.proxy})
	w.checkSilence(result, err)
	w.Must(err)
	return result
}

// settle runs passes until one is Ready and writes nothing.
func (w *world) settle() Result {
	w.T.Helper()
	var result Result
	for range 12 {
		before := w.Writes
		if result = w.pass(); result.State == Ready && w.Writes == before {
			return result
		}
	}
	w.T.Fatalf("not Ready after 12 passes: %s %s: %s", result.State, result.Reason, result.Message)
	return result
}

// checkSilence checks that messages, errors and Events contain no tokens.
func (w *world) checkSilence(result Result, err error) {
	w.T.Helper()
	list, values := &corev1.SecretList{}, map[string]bool{}
	w.Must(w.Client.List(w.Ctx, list))
	for _, secret := range list.Items {
		for _, value := range secret.Data {
			values[string(value)] = true
		}
	}
	w.CheckSilence(values, result.Events, result.Message, err, result.LeftBehind)
}

func (w *world) token() string {
	w.T.Helper()
	return string(w.Secret(tokenSecret).Data["token"])
}

// only returns the single proxy of a Coder.
func (w *world) only(coder *coderdtest.Server) coderdtest.Proxy {
	w.T.Helper()
	proxies := coder.Proxies()
	if len(proxies) != 1 {
		w.T.Fatalf("Coder has the proxies %+v, want one", proxies)
	}
	return proxies[0]
}

// checkWhole checks that there is one proxy that matches the spec, and that the Secret contains its
// token.
func (w *world) checkWhole(coder *coderdtest.Server, name, displayName, icon string) {
	w.T.Helper()
	got := w.only(coder)
	secret := w.Secret(tokenSecret)
	if got.Name != name || got.DisplayName != displayName || got.Icon != icon {
		w.T.Errorf("Coder has name %q, display name %q, icon %q, want %q, %q, %q", got.Name, got.DisplayName, got.Icon, name, displayName, icon)
	}
	if token := string(secret.Data["token"]); token != got.Token {
		w.T.Error("the Secret does not hold the token that Coder accepts")
	}
	if id := secret.Annotations[AnnotationProxyID]; id != got.ID.String() {
		w.T.Errorf("the Secret is about proxy %q, Coder has %q", id, got.ID)
	}
	if former := secret.Annotations[AnnotationFormer]; former != "" {
		w.T.Errorf("former registrations are left: %s", former)
	}
}
