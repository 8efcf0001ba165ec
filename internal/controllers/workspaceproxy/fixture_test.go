package workspaceproxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controllertest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
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
	*controllertest.Fixture[*coderv1alpha1.CoderWorkspaceProxy]
	coder *coderdtest.Server
	next  *coderdtest.Server
}

func newFixture(t testing.TB, proxy *coderv1alpha1.CoderWorkspaceProxy, objects ...client.Object) *fixture {
	t.Helper()
	f := &fixture{
		Fixture: controllertest.New(t, controllertest.Options[*coderv1alpha1.CoderWorkspaceProxy]{
			Name: client.ObjectKey{Namespace: "team", Name: "sydney"}, Deployment: deploymentName,
			Status: func(p *coderv1alpha1.CoderWorkspaceProxy) *coderv1alpha1.WorkloadStatus {
				return &p.Status.WorkloadStatus
			},
			Further: func(b *fake.ClientBuilder) {
				b.WithIndex(&coderv1alpha1.CoderWorkspaceProxy{}, framework.IndexControlPlane, framework.IndexByControlPlane(controlPlaneOf))
			},
		}),
		coder: coderdtest.New(t, coderdtest.WithLicensing()), next: coderdtest.New(t, coderdtest.WithLicensing()),
	}
	f.coder.SetFeature(coderd.FeatureWorkspaceProxy, "entitled")
	f.next.SetFeature(coderd.FeatureWorkspaceProxy, "entitled")
	f.Build(append(objects, proxy,
		secretOf("dev-operator-token", f.coder.AddUser("operator", "owner")), secretOf("next-operator-token", f.next.AddUser("operator", "owner")),
		controlPlane("dev", controlPlaneURL, accessURL), controlPlane("next", nextURL, nextAccessURL))...)
	f.restart()
	return f
}

func secretOf(name, token string) *corev1.Secret {
	return controllertest.Secret("team", name, map[string]string{"token": token})
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
			CreationTimestamp: metav1.NewTime(time.Date(2026, 11, 21, 11, 59, 0, 0, time.UTC)),
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
	f.Fault.Set(0, false)
	kit := framework.NewWith(f.Cluster, f.Cluster, f.Events, framework.Options{
		Clock: f.Clock,
		NewClient: func(cfg coderd.Config) (*coderd.Client, error) {
			cfg.Transport = &router{f: f}
			return coderd.New(cfg)
		},
	})
	f.Reconciler = New(kit, func(types.NamespacedName) {})
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
	return r.f.Fault.RoundTrip(req)
}

// settle is Settle, and checks that no token is exposed.
func (f *fixture) settle() ctrl.Result {
	f.T.Helper()
	result := f.Settle()
	f.mustNotLeak()
	return result
}

// run is settle with pods that become ready.
func (f *fixture) run() ctrl.Result {
	f.T.Helper()
	f.settle()
	f.podsReady()
	return f.settle()
}

// edit changes the spec like the API server.
func (f *fixture) edit(change func(*coderv1alpha1.CoderWorkspaceProxySpec)) {
	f.T.Helper()
	f.Edit(func(p *coderv1alpha1.CoderWorkspaceProxy) { change(&p.Spec) })
}

// podsReady makes all pods ready.
func (f *fixture) podsReady() { f.PodsReady(*f.Deployment().Spec.Replicas) }

// mustHave is MustHave for a condition of the current generation.
func (f *fixture) mustHave(conditionType string, status metav1.ConditionStatus, reason string) metav1.Condition {
	f.T.Helper()
	c := f.MustHave(conditionType, status, reason)
	if generation := f.Object().Generation; c.ObservedGeneration != generation {
		f.T.Fatalf("condition %+v is not that of generation %d", c, generation)
	}
	return c
}

// env returns a variable of Coder's container.
func (f *fixture) env(name string) corev1.EnvVar {
	f.T.Helper()
	for _, variable := range f.Deployment().Spec.Template.Spec.Containers[0].Env {
		if variable.Name == name {
			return variable
		}
	}
	return corev1.EnvVar{}
}

// mustNotLeak checks that the status and the Events do not contain tokens.
func (f *fixture) mustNotLeak() {
	f.T.Helper()
	secrets := &corev1.SecretList{}
	f.List(secrets)
	var tokens []string
	for _, secret := range secrets.Items {
		tokens = append(tokens, string(secret.Data["token"]))
	}
	f.MustNotExpose(tokens)
}
