package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controllertest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// apiServer runs the controller against a real kube-apiserver, like internal/app.
type apiServer struct {
	*controllertest.APIServer
	clock *clocktesting.FakeClock
	cache client.Reader
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	a := &apiServer{
		APIServer: controllertest.NewAPIServer(t, kubetest.Start(t, controllertest.CRDs), ""), clock: clocktesting.NewFakeClock(time.Now()),
	}
	a.Run(framework.CacheOptions(), func(ctx context.Context, mgr manager.Manager) error {
		a.cache = mgr.GetCache()
		optional, err := framework.NewOptionalKinds(mgr, a.clock)
		a.Must(err)
		kit, err := framework.New(mgr, framework.Options{Optional: optional, CheckAuthor: kubetest.AnyAuthor})
		a.Must(err)
		return errors.Join(New(kit).SetupWithManager(ctx, mgr), mgr.Add(optional))
	})
	return a
}

func (a *apiServer) mustHave(conditionType string, status metav1.ConditionStatus, reason string) {
	a.T.Helper()
	polltest.Eventually(a.T, conditionType+" "+reason, func(ctx context.Context) error {
		cp := &coderv1alpha1.CoderControlPlane{}
		if err := a.Client.Get(ctx, coderKey(), cp); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(cp.Status.Conditions, conditionType); c == nil || c.Status != status || c.Reason != reason {
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
		if err := a.Client.Create(ctx, obj); err != nil {
			t.Fatal(err)
		}
	}
	a.mustHave(coderv1alpha1.ConditionExposed, metav1.ConditionFalse, coderv1alpha1.ReasonKindMissing)
	a.mustHave(coderv1alpha1.ConditionResourcesApplied, metav1.ConditionTrue, coderv1alpha1.ReasonApplied)

	definitions := envtest.CRDInstallOptions{Paths: []string{gatewayCRDs(t)}, MaxTime: time.Minute}
	if _, err := envtest.InstallCRDs(a.Config, definitions); err != nil {
		t.Fatal(err)
	}
	others := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "others"}}
	if err := a.Client.Create(ctx, others); err != nil {
		t.Fatal(err)
	}
	polltest.Eventually(a.T, "the HTTPRoute", func(ctx context.Context) error {
		a.clock.Step(time.Minute)
		return a.Client.Get(ctx, coderKey(), &gatewayv1.HTTPRoute{})
	})
	a.mustHave(coderv1alpha1.ConditionExposed, metav1.ConditionTrue, coderv1alpha1.ReasonExposed)
	if err := a.cache.Get(ctx, client.ObjectKeyFromObject(others), others); !apierrors.IsNotFound(err) {
		t.Errorf("the cache holds an HTTPRoute of another owner, or fails: %v", err)
	}

	route := &gatewayv1.HTTPRoute{}
	if err := a.Client.Get(ctx, coderKey(), route); err != nil {
		t.Fatal(err)
	}
	first := route.UID
	if err := a.Client.Delete(ctx, route); err != nil {
		t.Fatal(err)
	}
	polltest.Eventually(a.T, "the HTTPRoute after somebody deleted it", func(ctx context.Context) error {
		if err := a.Client.Get(ctx, coderKey(), route); err != nil {
			return err
		}
		if route.UID == first {
			return fmt.Errorf("it is the one before")
		}
		return nil
	})

	a.aSecretRolls()

	if err := a.Client.Get(ctx, coderKey(), cp); err != nil {
		t.Fatal(err)
	}
	// The controller may write the status at the same time, so this is a patch and not an update.
	base := cp.DeepCopy()
	cp.Spec.Expose = nil
	if err := a.Client.Patch(ctx, cp, client.MergeFrom(base)); err != nil {
		t.Fatal(err)
	}
	polltest.Eventually(a.T, "the end of the HTTPRoute", func(ctx context.Context) error {
		if err := a.Client.Get(ctx, coderKey(), route); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there, or cannot be read: %w", err)
		}
		return nil
	})
}

func (a *apiServer) aSecretRolls() {
	a.T.Helper()
	checksum := func(ctx context.Context) (string, error) {
		d := &appsv1.Deployment{}
		err := a.Client.Get(ctx, coderKey(), d)
		return d.Spec.Template.Annotations[coderv1alpha1.AnnotationConfigChecksum], err
	}
	before, err := checksum(a.T.Context())
	if err != nil || before == "" {
		a.T.Fatalf("checksum %q, %v", before, err)
	}
	secret := databaseSecret()
	secret.Data["url"] = []byte("postgres://other")
	if err := a.Client.Update(a.T.Context(), secret); err != nil {
		a.T.Fatal(err)
	}
	polltest.Eventually(a.T, "another checksum", func(ctx context.Context) error {
		after, err := checksum(ctx)
		if err == nil && after == before {
			err = fmt.Errorf("it is still %s", after)
		}
		return err
	})
}

// inSharedAPIServer runs the controller in a namespace of the shared kube-apiserver.
func inSharedAPIServer(t *testing.T) *controllertest.APIServer {
	t.Helper()
	config := kubetest.Shared(t, controllertest.CRDs)
	a := controllertest.NewAPIServer(t, config, kubetest.Namespace(t, config))
	a.Run(framework.CacheOptions(), func(ctx context.Context, mgr manager.Manager) error {
		kit, err := framework.New(mgr, framework.Options{CheckAuthor: kubetest.AnyAuthor})
		a.Must(err)
		return New(kit).SetupWithManager(ctx, mgr)
	})
	secret := databaseSecret()
	secret.Namespace = a.Namespace
	a.Must(a.Client.Create(t.Context(), secret))
	return a
}

// The program that created a Deployment owns the numbers of its rolling update too, and the API server
// rejects them together with Recreate.
func TestAnAdoptedDeploymentStopsItsPodsFirst(t *testing.T) {
	a := inSharedAPIServer(t)
	chart := map[string]string{"app": "coder"}
	a.Must(a.Client.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: "coder", Annotations: map[string]string{coderv1alpha1.AnnotationAdopt: "CoderControlPlane/coder"}},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: chart},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: chart},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "coder", Image: image230}}},
			},
		},
	}))
	a.Must(a.Client.Create(t.Context(), newControlPlane(func(cp *coderv1alpha1.CoderControlPlane) {
		cp.Namespace, cp.UID, cp.Generation, cp.Spec.Image = a.Namespace, "", 0, image236
	})))
	polltest.Eventually(t, "the new image", func(ctx context.Context) error {
		d, cp := &appsv1.Deployment{}, &coderv1alpha1.CoderControlPlane{}
		a.Must(a.Get("coder", d))
		a.Must(a.Get("coder", cp))
		if d.Spec.Template.Spec.Containers[0].Image == image236 && d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
			return nil
		}
		return fmt.Errorf("image %s, strategy %+v, conditions %+v", d.Spec.Template.Spec.Containers[0].Image, d.Spec.Strategy, cp.Status.Conditions)
	})
}

// A control plane that the operator never calls is not checked again by itself, so only the watch
// reports that an older one took or left its database.
func TestTheYoungerControlPlaneSeesTheOlderOneLeaveItsDatabase(t *testing.T) {
	a := inSharedAPIServer(t)
	atRest := func(name string) *coderv1alpha1.CoderControlPlane {
		cp := newControlPlane(func(cp *coderv1alpha1.CoderControlPlane) {
			cp.Namespace, cp.Name, cp.UID, cp.Generation = a.Namespace, name, "", 0
			cp.Spec.Replicas, cp.Spec.OperatorAccess.Disabled = ptr.To[int32](0), true
		})
		a.Must(a.Client.Create(t.Context(), cp))
		polltest.Eventually(t, name+" is Ready", func() error {
			a.Must(a.Get(name, cp))
			if meta.IsStatusConditionTrue(cp.Status.Conditions, coderv1alpha1.ConditionReady) {
				return nil
			}
			return errors.Join(a.RollOut(name), fmt.Errorf("conditions %+v", cp.Status.Conditions))
		})
		return cp
	}
	older := atRest("a")
	atRest("b")
	mustShare := func(when string, want bool) {
		t.Helper()
		polltest.Eventually(t, when, func() error {
			cp := &coderv1alpha1.CoderControlPlane{}
			a.Must(a.Get("b", cp))
			if c := meta.FindStatusCondition(cp.Status.Conditions, coderv1alpha1.ConditionDatabaseExclusive); (c != nil) != want {
				return fmt.Errorf("the condition is %+v", c)
			}
			return nil
		})
	}
	useKey := func(key string) {
		a.Must(a.Get("a", older))
		base := older.DeepCopy()
		older.Spec.ExtraEnv[0].ValueFrom.SecretKeyRef.Key = key
		a.Must(a.Client.Patch(t.Context(), older, client.MergeFrom(base)))
	}
	mustShare("both use it", true)
	useKey("other")
	mustShare("the older one left it", false)
	useKey("url")
	mustShare("the older one is back", true)
	a.Must(a.Client.Delete(t.Context(), older))
	mustShare("the older one is deleted", false)
}
