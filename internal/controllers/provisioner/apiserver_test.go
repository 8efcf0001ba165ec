package provisioner

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	"github.com/coder-k8s/coder-k8s/internal/kube/conditions"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// apiServer is a real kube-apiserver and a real manager that runs the controller with its watches,
// its cache without annotations, and server-side apply.
type apiServer struct {
	t         *testing.T
	namespace string
	client    client.Client
	coder     *coderdtest.Server
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	config := kubetest.Shared(t, filepath.Join("..", "..", "..", "config", "crd", "bases"))
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, coderv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	a := &apiServer{t: t, namespace: kubetest.Namespace(t, config), coder: coderdtest.New(t, coderdtest.WithLicensing())}
	a.coder.SetFeature(feature, "entitled")
	var err error
	if a.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:      cache.Options{ByObject: workload.CacheByObject(), DefaultNamespaces: map[string]cache.Config{a.namespace: {}}},
		Controller: ctrlconfig.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	kit, err := workload.New(mgr, workload.Options{Authors: kubetest.AnyAuthor{}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(mgr, kit, Options{})
	if err != nil {
		t.Fatal(err)
	}
	a.must(workload.SetUpIndexes(ctx, mgr))
	a.must(r.SetupWithManager(ctx, mgr))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return a
}

func (a *apiServer) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *apiServer) get(of string, obj client.Object) error {
	return a.client.Get(a.t.Context(), client.ObjectKey{Namespace: a.namespace, Name: of}, obj)
}

// rollOut does the work of the Deployment controller, because there are no pods.
func (a *apiServer) rollOut() error {
	d := &appsv1.Deployment{}
	if err := a.get("provisioner-gpu", d); err != nil {
		return err
	}
	wanted := ptr.Deref(d.Spec.Replicas, 1)
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: wanted, UpdatedReplicas: wanted, ReadyReplicas: wanted, AvailableReplicas: wanted,
	}
	return a.client.Status().Update(a.t.Context(), d)
}

// becomes waits until the provisioner is Ready and the only key in Coder has the given name.
func (a *apiServer) becomes(key string) {
	a.t.Helper()
	polltest.Eventually(a.t, "waiting for the key "+key, func() error {
		if err := a.rollOut(); err != nil {
			return err
		}
		cr := &coderv1alpha1.CoderProvisioner{}
		if err := a.get(name, cr); err != nil {
			return err
		}
		keys := a.coder.ProvisionerKeys("coder")
		if !conditions.IsTrue(cr.Status.Conditions, coderv1alpha1.ConditionReady) || cr.Status.ObservedGeneration != cr.Generation ||
			len(keys) != 1 || keys[0].Name != key || cr.Status.ProvisionerKeyName != key {
			return fmt.Errorf("keys %d, conditions %+v", len(keys), cr.Status.Conditions)
		}
		return nil
	})
}

func TestOnARealAPIServer(t *testing.T) {
	a := newAPIServer(t)
	ctx := t.Context()
	wrong := newProvisioner(func(cr *coderv1alpha1.CoderProvisioner) {
		cr.Namespace, cr.Name, cr.UID = a.namespace, "wrong", ""
		cr.Spec.PSKSecretRef, cr.Spec.OrganizationName = &coderv1alpha1.PSKSecretReference{Name: "psk"}, "sales"
	})
	if err := a.client.Create(ctx, wrong); err == nil || !strings.Contains(err.Error(), "spec.organizationName") {
		t.Errorf("a pre-shared key for another organization: %v", err)
	}

	cr := newProvisioner(func(cr *coderv1alpha1.CoderProvisioner) { cr.Namespace, cr.UID = a.namespace, "" })
	a.must(a.client.Create(ctx, cr))
	polltest.Eventually(a.t, "waiting for the control plane", func() error {
		seen := &coderv1alpha1.CoderProvisioner{}
		if err := a.get(name, seen); err != nil {
			return err
		}
		if c := conditions.Find(seen.Status.Conditions, coderv1alpha1.ConditionControlPlaneReady); c == nil || c.Status != metav1.ConditionFalse {
			return fmt.Errorf("%+v", seen.Status.Conditions)
		}
		return nil
	})

	// The watch of the control plane reports that it was created, and then that it is ready.
	token := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: "coder-operator-token"},
		Data:       map[string][]byte{"token": []byte(a.coder.AddUser("operator", "owner"))},
	}
	a.must(a.client.Create(ctx, token))
	cp := newControlPlane()
	cp.Namespace, cp.UID = a.namespace, ""
	status := cp.Status
	a.must(a.client.Create(ctx, cp))
	cp.Status = status
	cp.Status.URL = a.coder.URL
	a.must(a.client.Status().Update(ctx, cp))
	a.becomes("gpu")

	// One replacement is caused by the tags, and one by the deletion of the Secret. The controller
	// may write the status at the same time, so this is a patch and not an update.
	a.must(a.get(name, cr))
	before := cr.DeepCopy()
	cr.Spec.Tags = nil
	a.must(a.client.Patch(ctx, cr, client.MergeFrom(before)))
	a.becomes("gpu-2")
	a.must(a.client.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: "gpu-provisioner-key"}}))
	a.becomes("gpu")

	// Annotations and restarts by other clients are kept.
	d := &appsv1.Deployment{}
	a.must(a.get("provisioner-gpu", d))
	generation := d.Generation
	base := d.DeepCopy()
	d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] = "now"
	a.must(a.client.Patch(ctx, d, client.MergeFrom(base)))
	a.becomes("gpu")
	a.must(a.get("provisioner-gpu", d))
	if d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] == "" || d.Generation != generation+1 {
		t.Errorf("generation %d after %d, annotations %v", d.Generation, generation, d.Spec.Template.Annotations)
	}

	a.must(a.client.Delete(ctx, cr))
	polltest.Eventually(a.t, "waiting for the end", func() error {
		if err := a.get(name, &coderv1alpha1.CoderProvisioner{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the provisioner is still there: %w", err)
		}
		if keys := a.coder.ProvisionerKeys("coder"); len(keys) > 0 {
			return fmt.Errorf("%d keys are left", len(keys))
		}
		return nil
	})
}
