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
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure/ensuretest"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

const (
	accessURL   = "https://coder.example.com"
	tokenSecret = "sydney-proxy-token"
)

// fixture contains a cluster, two Coders and the Manager.
type fixture struct {
	*ensuretest.Fixture
	other   *coderdtest.Server
	manager *Manager
	proxy   *coderv1alpha1.CoderWorkspaceProxy
	healthy bool
}

// knownKinds is the scheme of the fake cluster.
var knownKinds = kubetest.KindsOf(corev1.AddToScheme, coderv1alpha1.AddToScheme)

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{
		Fixture: ensuretest.New(t, knownKinds, coderdtest.WithLicensing()), healthy: true,
		other: coderdtest.New(t, coderdtest.WithLicensing()), proxy: newProxy(),
	}
	for _, coder := range []*coderdtest.Server{f.Coder, f.other} {
		coder.SetFeature(coderd.FeatureWorkspaceProxy, "entitled")
	}
	f.restart()
	f.Create(f.proxy.DeepCopy())
	f.controlPlane("dev", f.Coder)
	f.controlPlane("next", f.other)
	f.secret("owner", map[string]string{"token": f.other.AddUser("ada", "owner")})
	f.Fault.Set(0, false)
	return f
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
func (f *fixture) controlPlane(name string, coder *coderdtest.Server) {
	f.T.Helper()
	f.secret(name+"-operator-token", map[string]string{"token": coder.AddUser("operator-"+name, "owner")})
	cp := &coderv1alpha1.CoderControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: ensuretest.Namespace, Name: name, UID: types.UID(name + "-uid")},
		Status: coderv1alpha1.CoderControlPlaneStatus{
			URL: coder.URL, OperatorAccessReady: true,
			OperatorTokenSecretRef: &coderv1alpha1.TokenSecretReference{Name: name + "-operator-token", Key: "token"},
		},
	}
	f.Create(cp)
}

func (f *fixture) secret(name string, data map[string]string) {
	f.T.Helper()
	f.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ensuretest.Namespace, Name: name}, StringData: data, Data: bytesOf(data)})
}

func bytesOf(data map[string]string) map[string][]byte {
	out := map[string][]byte{}
	for key, value := range data {
		out[key] = []byte(value)
	}
	return out
}

// restart creates a new Manager with empty state, like a new process.
func (f *fixture) restart() {
	f.Fault.Set(0, false)
	f.manager = &Manager{
		Client: f.Cluster, Reader: f.Cluster, Clock: f.Clock, NewClient: f.NewClient, Refused: func(types.NamespacedName) {},
	}
}

// pass does what the controller does in one pass, stores what the status stores, and checks that
// messages contain no secrets.
func (f *fixture) pass() Result {
	f.T.Helper()
	result, err := f.try()
	f.Must(err)
	return result
}

func (f *fixture) try() (Result, error) {
	f.T.Helper()
	request := Request{Proxy: f.proxy, AccessURL: f.accessURL(), Healthy: f.healthy}
	result, err := f.manager.Ensure(f.Ctx, request)
	if err == nil && f.proxy.Status.ProxyName == "" && result.ProxyName != "" && result.ProxyID == "" {
		// The next pass registers the proxy.
		f.proxy.Status.ProxyName = result.ProxyName
		result, err = f.manager.Ensure(f.Ctx, request)
	}
	f.checkSilence(result, err)
	if err == nil {
		f.proxy.Status.ProxyID, f.proxy.Status.ProxyName = result.ProxyID, result.ProxyName
	}
	return result, err
}

// accessURL returns the access URL of the Coder that the spec names.
func (f *fixture) accessURL() string {
	if f.proxy.Spec.ProxySessionTokenSecretRef != nil {
		return f.Coder.URL
	}
	return accessURL
}

func (f *fixture) remove() Result {
	f.T.Helper()
	result, err := f.manager.Remove(f.Ctx, Request{Proxy: f.proxy})
	f.checkSilence(result, err)
	f.Must(err)
	return result
}

// settle runs passes until one is Ready and writes nothing.
func (f *fixture) settle() Result {
	f.T.Helper()
	var result Result
	for range 12 {
		before := f.Writes()
		if result = f.pass(); result.State == ensure.Ready && f.Writes() == before {
			return result
		}
	}
	f.T.Fatalf("not Ready after 12 passes: %s %s: %s", result.State, result.Reason, result.Message)
	return result
}

// checkSilence checks that messages, errors and Events contain no tokens.
func (f *fixture) checkSilence(result Result, err error) {
	f.T.Helper()
	list, values := &corev1.SecretList{}, map[string]bool{}
	f.Must(f.Cluster.List(f.Ctx, list))
	for _, secret := range list.Items {
		for _, value := range secret.Data {
			values[string(value)] = true
		}
	}
	f.CheckSilence(values, result.Events, result.Message, err, result.LeftBehind)
}

func (f *fixture) token() string {
	f.T.Helper()
	return string(f.Secret(tokenSecret).Data["token"])
}

// only returns the single proxy of a Coder.
func (f *fixture) only(coder *coderdtest.Server) coderdtest.Proxy {
	f.T.Helper()
	proxies := coder.Proxies()
	if len(proxies) != 1 {
		f.T.Fatalf("Coder has the proxies %+v, want one", proxies)
	}
	return proxies[0]
}

// checkWhole checks that there is one proxy that matches the spec, and that the Secret contains its
// token.
func (f *fixture) checkWhole(coder *coderdtest.Server, name, displayName, icon string) {
	f.T.Helper()
	got := f.only(coder)
	secret := f.Secret(tokenSecret)
	if got.Name != name || got.DisplayName != displayName || got.Icon != icon {
		f.T.Errorf("Coder has name %q, display name %q, icon %q, want %q, %q, %q", got.Name, got.DisplayName, got.Icon, name, displayName, icon)
	}
	if token := string(secret.Data["token"]); token != got.Token {
		f.T.Error("the Secret does not hold the token that Coder accepts")
	}
	if id := secret.Annotations[AnnotationProxyID]; id != got.ID.String() {
		f.T.Errorf("the Secret is about proxy %q, Coder has %q", id, got.ID)
	}
}
