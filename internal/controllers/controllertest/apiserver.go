package controllertest

import (
	"context"
	"net/http"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// CRDs is the directory of the CRDs as seen from the package of a controller.
var CRDs = filepath.Join("..", "..", "..", "charts", "coder-k8s", "files", "crds")

// APIServer is a real kube-apiserver, with a real manager that runs a controller with its watches,
// its cache without annotations, and server-side apply.
type APIServer struct {
	T         *testing.T
	Config    *rest.Config
	Namespace string
	Client    client.Client
}

// NewAPIServer returns an APIServer without a controller. Run starts it.
func NewAPIServer(t *testing.T, restConfig *rest.Config, namespace string) *APIServer {
	t.Helper()
	a := &APIServer{T: t, Config: restConfig, Namespace: namespace}
	var err error
	a.Client, err = client.New(restConfig, client.Options{Scheme: kinds.Scheme(t)})
	a.Must(err)
	return a
}

func managerOptions(t *testing.T, cached cache.Options) manager.Options {
	t.Helper()
	return manager.Options{
		Scheme: kinds.Scheme(t), Metrics: metricsserver.Options{BindAddress: "0"}, Cache: cached,
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	}
}

// OfflineManager returns a manager that reaches no API server.
func OfflineManager(t *testing.T, cached cache.Options) manager.Manager {
	t.Helper()
	options := managerOptions(t, cached)
	options.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
		return testrestmapper.TestOnlyStaticRESTMapper(options.Scheme), nil
	}
	mgr, err := manager.New(&rest.Config{Host: "http://127.0.0.1:1"}, options)
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

// Run starts a manager with the controller that setUp registers, until the test ends. The cache
// contains only the namespace, if there is one.
func (a *APIServer) Run(cached cache.Options, setUp func(context.Context, manager.Manager) error) {
	a.T.Helper()
	if a.Namespace != "" {
		cached.DefaultNamespaces = map[string]cache.Config{a.Namespace: {}}
	}
	mgr, err := manager.New(a.Config, managerOptions(a.T, cached))
	a.Must(err)
	ctx, cancel := context.WithCancel(a.T.Context())
	a.Must(setUp(ctx, mgr))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	a.T.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			a.T.Errorf("the manager ended with: %v", err)
		}
	})
}

// Must fails the test if there is an error.
func (a *APIServer) Must(err error) {
	a.T.Helper()
	if err != nil {
		a.T.Fatal(err)
	}
}

// Get reads an object in the namespace.
func (a *APIServer) Get(name string, obj client.Object) error {
	return a.Client.Get(a.T.Context(), client.ObjectKey{Namespace: a.Namespace, Name: name}, obj)
}

// RollOut does the work of the Deployment controller, because there are no pods.
func (a *APIServer) RollOut(name string) error {
	d := &appsv1.Deployment{}
	if err := a.Get(name, d); err != nil {
		return err
	}
	d.Status = availableStatus(d, ptr.Deref(d.Spec.Replicas, 1))
	return a.Client.Status().Update(a.T.Context(), d)
}

// availableStatus returns the status of a Deployment whose pods are all of the newest revision.
func availableStatus(d *appsv1.Deployment, ready int32) appsv1.DeploymentStatus {
	wanted := ptr.Deref(d.Spec.Replicas, 1)
	return appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: wanted, UpdatedReplicas: wanted, ReadyReplicas: ready, AvailableReplicas: ready,
	}
}
