package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controllertest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/author"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// password must not appear outside its Secret.
const password = "correct-horse-battery"

// fixture runs the controller against a fake cluster and a fake Coder.
type fixture struct {
	*controllertest.Fixture[*coderv1alpha1.CoderControlPlane]
	coder *coderdtest.Server
	logs  *fakeLogs
	r     *Reconciler

	// reads disturbs the controller's reads from the cluster.
	reads *kubetest.Fault
	// late is the stale cache from which the controller reads, if set.
	late *lateCache
	// kinds are the optional kinds that the cluster serves.
	kinds kindList
	// checkAuthor checks the author of grants.
	checkAuthor func(context.Context, client.Object, author.Grant) error
	// watch is called before each request to Coder, if set. It may change the request.
	watch func(*http.Request)
	// anyPort allows calls of Coder on other ports than 80.
	anyPort bool
	// lists counts the uncached lists of control planes.
	lists atomic.Int32
}

// kindList is the set of optional kinds of a cluster.
type kindList map[schema.GroupVersionKind]bool

// Has implements framework.KindSet.
func (k kindList) Has(kind schema.GroupVersionKind) bool { return k[kind] }

func newFixture(t testing.TB, objects ...client.Object) *fixture {
	t.Helper()
	f := &fixture{
		Fixture: controllertest.New(t, controllertest.Options[*coderv1alpha1.CoderControlPlane]{
			Name: coderKey(), Deployment: "coder",
			Status: func(cp *coderv1alpha1.CoderControlPlane) *coderv1alpha1.WorkloadStatus {
				return &cp.Status.WorkloadStatus
			},
			Further: func(b *fake.ClientBuilder) {
				b.WithIndex(&coderv1alpha1.CoderControlPlane{}, framework.IndexReferences, framework.IndexByReferences(references))
			},
		}),
		coder: coderdtest.New(t), logs: &fakeLogs{}, reads: &kubetest.Fault{}, kinds: kindList{}, checkAuthor: kubetest.AnyAuthor,
	}
	f.Build(append(objects, volumeClaim())...)
	f.restart()
	return f
}

// restart creates a new controller with empty state, like a new process.
func (f *fixture) restart() {
	connect := func(cfg coderd.Config) (*coderd.Client, error) {
		if want := "http://coder.coder.svc.cluster.local:80"; cfg.URL != want && (!f.anyPort || !strings.HasPrefix(cfg.URL, strings.TrimSuffix(want, "80"))) {
			return nil, fmt.Errorf("the controller calls %q, want %q", cfg.URL, want)
		}
		cfg.URL, cfg.Transport = f.coder.URL, watched{f, f.Fault.Writes()}
		return coderd.New(cfg)
	}
	live := interceptor.NewClient(f.Cluster, f.readers(false))
	cached := interceptor.NewClient(f.Cluster, f.readers(true))
	kit := framework.NewWith(cached, live, f.Events, framework.Options{
		Clock: f.Clock, Logs: f.logs.Tail, Optional: f.kinds, CheckAuthor: f.checkAuthor, NewClient: connect, Cluster: resources.Cluster{OperatorImage: "operator"},
	})
	kit.Uncached = live
	f.r = New(kit)
	f.Reconciler = f.r
}

// watched is a transport that reports each request before it is sent.
type watched struct {
	f    *fixture
	next http.RoundTripper
}

func (w watched) RoundTrip(req *http.Request) (*http.Response, error) {
	if w.f.watch != nil {
		w.f.watch(req)
	}
	return w.next.RoundTrip(req)
}

// readers returns interceptors that count the uncached lists of control planes, and make reads fail
// or come from a stale cache.
func (f *fixture) readers(cached bool) interceptor.Funcs {
	from := func(c client.WithWatch) client.WithWatch {
		if cached && f.late != nil {
			return f.late.view()
		}
		return c
	}
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			return f.reads.Around(func() error { return from(c).Get(ctx, key, obj, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*coderv1alpha1.CoderControlPlaneList); ok && !cached {
				f.lists.Add(1)
			}
			return f.reads.Around(func() error { return from(c).List(ctx, list, opts...) })
		},
	}
}

// mustNotLeak checks that the control plane and the Events do not contain the password or the user
// of the database.
func (f *fixture) mustNotLeak() {
	f.T.Helper()
	f.MustNotExpose([]string{password, "://coder:"})
}

func newControlPlane(changes ...func(*coderv1alpha1.CoderControlPlane)) *coderv1alpha1.CoderControlPlane {
	cp := &coderv1alpha1.CoderControlPlane{
		ObjectMeta: metav1.ObjectMeta{Name: "coder", Namespace: "coder", UID: "cp-uid", Generation: 1},
		Spec: coderv1alpha1.CoderControlPlaneSpec{
			Image: "ghcr.io/coder/coder:v2.30.0",
			WorkloadSpec: coderv1alpha1.WorkloadSpec{
				Replicas: ptr.To[int32](1),
				ExtraEnv: []corev1.EnvVar{{Name: coderv1alpha1.EnvDatabase, ValueFrom: &corev1.EnvVarSource{
					SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "db"}, Key: "url"},
				}}},
			},
			InitialAdmin: coderv1alpha1.InitialAdminSpec{Username: "admin", Email: "admin@example.com"},
		},
	}
	for _, change := range changes {
		change(cp)
	}
	return cp
}

func databaseSecret() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "coder"},
		Data:       map[string][]byte{"url": []byte("postgres://coder:" + password + "@db.coder.svc:5432/coder")},
	}
}

// volumeClaim returns the PersistentVolumeClaim in which schedule stores backups.
func volumeClaim() *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "backups", Namespace: "coder"}}
}

// fakeLogs contains the logs of every container, for the current and the previous container.
type fakeLogs struct {
	current, previous string
	requests          []framework.LogRequest
}

func (l *fakeLogs) Tail(_ context.Context, request framework.LogRequest) (string, error) {
	l.requests = append(l.requests, request)
	if request.Previous {
		return l.previous, nil
	}
	return l.current, nil
}

// roleName returns the name of the Role with the permissions for workspaces.
func roleName(cp *coderv1alpha1.CoderControlPlane) string {
	return resources.WorkspaceRoleName(resources.ControlPlane(cp, resources.Cluster{}), cp.Namespace)
}

// bindingName returns the name of the RoleBinding of that Role.
func bindingName(cp *coderv1alpha1.CoderControlPlane) string {
	return resources.WorkspaceRoleBindingName(resources.ControlPlane(cp, resources.Cluster{}), cp.Namespace)
}
