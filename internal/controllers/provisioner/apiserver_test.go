package provisioner

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controllertest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// apiServer runs the controller against a real kube-apiserver.
type apiServer struct {
	*controllertest.APIServer
	coder *coderdtest.Server
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	config := kubetest.Shared(t, controllertest.CRDs)
	a := &apiServer{controllertest.NewAPIServer(t, config, kubetest.Namespace(t, config)), coderdtest.New(t, coderdtest.WithLicensing())}
	a.coder.SetFeature(feature, "entitled")
	a.Run(framework.CacheOptions(), func(ctx context.Context, mgr manager.Manager) error {
		kit, err := framework.New(mgr, framework.Options{CheckAuthor: kubetest.AnyAuthor})
		a.Must(err)
		r := New(kit, func(types.NamespacedName) {})
		return r.SetupWithManager(ctx, mgr)
	})
	return a
}

// becomes waits until the provisioner is Ready and the only key in Coder has the given name.
func (a *apiServer) becomes(key string) {
	a.T.Helper()
	polltest.Eventually(a.T, "waiting for the key "+key, func() error {
		if err := a.RollOut("provisioner-gpu"); err != nil {
			return err
		}
		cr := &coderv1alpha1.CoderProvisioner{}
		if err := a.Get(name, cr); err != nil {
			return err
		}
		keys := a.coder.ProvisionerKeys("coder")
		if !meta.IsStatusConditionTrue(cr.Status.Conditions, coderv1alpha1.ConditionReady) || cr.Status.ObservedGeneration != cr.Generation ||
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
		cr.Namespace, cr.Name, cr.UID = a.Namespace, "wrong", ""
		cr.Spec.PSKSecretRef, cr.Spec.OrganizationName = &coderv1alpha1.PSKSecretReference{Name: "psk"}, "sales"
	})
	if err := a.Client.Create(ctx, wrong); err == nil || !strings.Contains(err.Error(), "spec.organizationName") {
		t.Errorf("a pre-shared key for another organization: %v", err)
	}

	cr := newProvisioner(func(cr *coderv1alpha1.CoderProvisioner) { cr.Namespace, cr.UID = a.Namespace, "" })
	a.Must(a.Client.Create(ctx, cr))
	polltest.Eventually(a.T, "waiting for the control plane", func() error {
		seen := &coderv1alpha1.CoderProvisioner{}
		if err := a.Get(name, seen); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(seen.Status.Conditions, coderv1alpha1.ConditionControlPlaneReady); c == nil || c.Status != metav1.ConditionFalse {
			return fmt.Errorf("%+v", seen.Status.Conditions)
		}
		return nil
	})

	// The watch of the control plane reports that it was created, and then that it is ready.
	token := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: "coder-operator-token"},
		Data:       map[string][]byte{"token": []byte(a.coder.AddUser("operator", "owner"))},
	}
	a.Must(a.Client.Create(ctx, token))
	cp := newControlPlane()
	cp.Namespace, cp.UID = a.Namespace, ""
	status := cp.Status
	a.Must(a.Client.Create(ctx, cp))
	cp.Status = status
	cp.Status.URL = a.coder.URL
	a.Must(a.Client.Status().Update(ctx, cp))
	a.becomes("gpu")

	// One replacement is caused by the tags, and one by the deletion of the Secret. The controller
	// may write the status at the same time, so this is a patch and not an update.
	a.Must(a.Get(name, cr))
	before := cr.DeepCopy()
	cr.Spec.Tags = nil
	a.Must(a.Client.Patch(ctx, cr, client.MergeFrom(before)))
	a.becomes("gpu-2")
	a.Must(a.Client.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: "gpu-provisioner-key"}}))
	a.becomes("gpu")

	// Annotations and restarts by other clients are kept.
	d := &appsv1.Deployment{}
	a.Must(a.Get("provisioner-gpu", d))
	generation := d.Generation
	base := d.DeepCopy()
	d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] = "now"
	a.Must(a.Client.Patch(ctx, d, client.MergeFrom(base)))
	a.becomes("gpu")
	a.Must(a.Get("provisioner-gpu", d))
	if d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] == "" || d.Generation != generation+1 {
		t.Errorf("generation %d after %d, annotations %v", d.Generation, generation, d.Spec.Template.Annotations)
	}

	a.Must(a.Client.Delete(ctx, cr))
	polltest.Eventually(a.T, "waiting for the end", func() error {
		if err := a.Get(name, &coderv1alpha1.CoderProvisioner{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the provisioner is still there: %w", err)
		}
		if keys := a.coder.ProvisionerKeys("coder"); len(keys) > 0 {
			return fmt.Errorf("%d keys are left", len(keys))
		}
		return nil
	})
}
