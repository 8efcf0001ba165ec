package controlplane

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	"github.com/coder-k8s/coder-k8s/internal/kube/conditions"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// apiServer is a real kube-apiserver and a real manager that runs the controller with its watches,
// caches and indexes.
type apiServer struct {
	t      *testing.T
	config *rest.Config
	client client.Client
	clock  *clocktesting.FakeClock
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	cfg := kubetest.Start(t, filepath.Join("..", "..", "..", "config", "crd", "bases"))
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, coderv1alpha1.AddToScheme, gatewayv1.Install, monitoringv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	a := &apiServer{t: t, config: cfg, clock: clocktesting.NewFakeClock(time.Now())}
	var err error
	if a.client, err = client.New(cfg, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:      cache.Options{ByObject: workload.CacheByObject()},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	a.run(mgr)
	return a
}

// run starts the controller like internal/app.
func (a *apiServer) run(mgr ctrl.Manager) {
	a.t.Helper()
	ctx, cancel := context.WithCancel(a.t.Context())
	optional, err := workload.NewOptionalKinds(mgr, a.clock)
	if err != nil {
		a.t.Fatal(err)
	}
	kit, err := workload.New(mgr, workload.Options{Optional: optional, Authors: kubetest.AnyAuthor{}})
	if err != nil {
		a.t.Fatal(err)
	}
	if err := workload.SetUpIndexes(ctx, mgr); err != nil {
		a.t.Fatal(err)
	}
	r, err := New(mgr, kit, Options{})
	if err != nil {
		a.t.Fatal(err)
	}
	if err := r.SetupWithManager(ctx, mgr); err != nil {
		a.t.Fatal(err)
	}
	if err := mgr.Add(optional); err != nil {
		a.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	a.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			a.t.Errorf("the manager ended with: %v", err)
		}
	})
}

func (a *apiServer) mustHave(conditionType string, status metav1.ConditionStatus, reason string) {
	a.t.Helper()
	polltest.Eventually(a.t, conditionType+" "+reason, func(ctx context.Context) error {
		cp := &coderv1alpha1.CoderControlPlane{}
		if err := a.client.Get(ctx, coderKey(), cp); err != nil {
			return err
		}
		if c := conditions.Find(cp.Status.Conditions, conditionType); c == nil || c.Status != status || c.Reason != reason {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}

// gatewayCRDs returns the path of the CRD in the module of the Gateway API.
func gatewayCRDs(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "config", "crd", "standard", "gateway.networking.k8s.io_httproutes.yaml")
}

// The controller reacts to a cluster that begins to serve HTTPRoute, to Secrets whose content
// changes, and to deleted children. Watches report all of these.
func TestAgainstARealAPIServer(t *testing.T) {
	a := newAPIServer(t)
	ctx := t.Context()
	cp := newControlPlane(func(cp *coderv1alpha1.CoderControlPlane) {
		cp.UID, cp.Generation = "", 0
		cp.Spec.Replicas = ptr.To[int32](0)
		cp.Spec.Expose = &coderv1alpha1.ExposeSpec{Gateway: &coderv1alpha1.GatewaySpec{
			Host: "coder.example.com", Scheme: "https", ParentRefs: []coderv1alpha1.GatewayParentReference{{Name: "edge"}},
		}}
		cp.Spec.NetworkPolicy = &coderv1alpha1.NetworkPolicySpec{}
	})
	for _, obj := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "coder"}}, databaseSecret(), cp,
	} {
		if err := a.client.Create(ctx, obj); err != nil {
			t.Fatal(err)
		}
	}
	a.mustHave(coderv1alpha1.ConditionExposed, metav1.ConditionFalse, coderv1alpha1.ReasonKindMissing)
	a.mustHave(coderv1alpha1.ConditionResourcesApplied, metav1.ConditionTrue, coderv1alpha1.ReasonApplied)

	definitions := envtest.CRDInstallOptions{Paths: []string{gatewayCRDs(t)}, MaxTime: time.Minute}
	if _, err := envtest.InstallCRDs(a.config, definitions); err != nil {
		t.Fatal(err)
	}
	polltest.Eventually(a.t, "the HTTPRoute", func(ctx context.Context) error {
		a.clock.Step(time.Minute)
		return a.client.Get(ctx, coderKey(), &gatewayv1.HTTPRoute{})
	})
	a.mustHave(coderv1alpha1.ConditionExposed, metav1.ConditionTrue, coderv1alpha1.ReasonExposed)

	route := &gatewayv1.HTTPRoute{}
	if err := a.client.Get(ctx, coderKey(), route); err != nil {
		t.Fatal(err)
	}
	first := route.UID
	if err := a.client.Delete(ctx, route); err != nil {
		t.Fatal(err)
	}
	polltest.Eventually(a.t, "the HTTPRoute after somebody deleted it", func(ctx context.Context) error {
		if err := a.client.Get(ctx, coderKey(), route); err != nil {
			return err
		}
		if route.UID == first {
			return fmt.Errorf("it is the one before")
		}
		return nil
	})

	a.aSecretRolls()

	if err := a.client.Get(ctx, coderKey(), cp); err != nil {
		t.Fatal(err)
	}
	// The controller may write the status at the same time, so this is a patch and not an update.
	base := cp.DeepCopy()
	cp.Spec.Expose = nil
	if err := a.client.Patch(ctx, cp, client.MergeFrom(base)); err != nil {
		t.Fatal(err)
	}
	polltest.Eventually(a.t, "the end of the HTTPRoute", func(ctx context.Context) error {
		if err := a.client.Get(ctx, coderKey(), route); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there, or cannot be read: %w", err)
		}
		return nil
	})
}

func (a *apiServer) aSecretRolls() {
	a.t.Helper()
	checksum := func(ctx context.Context) (string, error) {
		d := &appsv1.Deployment{}
		err := a.client.Get(ctx, coderKey(), d)
		return d.Spec.Template.Annotations[coderv1alpha1.AnnotationConfigChecksum], err
	}
	before, err := checksum(a.t.Context())
	if err != nil || before == "" {
		a.t.Fatalf("checksum %q, %v", before, err)
	}
	secret := databaseSecret()
	secret.Data["url"] = []byte("postgres://other")
	if err := a.client.Update(a.t.Context(), secret); err != nil {
		a.t.Fatal(err)
	}
	polltest.Eventually(a.t, "another checksum", func(ctx context.Context) error {
		after, err := checksum(ctx)
		if err == nil && after == before {
			err = fmt.Errorf("it is still %s", after)
		}
		return err
	})
}
