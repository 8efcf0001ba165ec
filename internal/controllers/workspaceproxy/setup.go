package workspaceproxy

import (
	"cmp"
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workspaceproxy/registration"
)

// New creates the controller. Use SetupWithManager to register it. refused is called when Coder
// rejects the operator's token of a control plane, so that the control plane is reconciled
// immediately. It must return quickly.
func New(kit *workload.Toolkit, refused func(controlPlane types.NamespacedName)) *Reconciler {
	return &Reconciler{kit: kit, registrar: &registration.Manager{
		Client: kit.Uncached, Reader: kit.Client, Clock: kit.Clock, NewClient: kit.NewClient, Refused: refused,
	}}
}

// SetupWithManager registers the controller and its watches. It runs on the leader only.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr manager.Manager) error {
	return r.kit.SetUp(ctx, mgr, workload.Registration{
		Kind: kind(), Name: "coderworkspaceproxy", For: &coderv1alpha1.CoderWorkspaceProxy{}, References: referencesOf,
		ControlPlane: controlPlaneOf, ControlPlaneChanges: []predicate.Predicate{changesForProxies()}, Reconciler: r,
	})
}

func controlPlaneOf(obj client.Object) *coderv1alpha1.ControlPlaneReference {
	if proxy, ok := obj.(*coderv1alpha1.CoderWorkspaceProxy); ok {
		return proxy.Spec.ControlPlaneRef
	}
	return nil
}

// referencesOf returns the Secrets and ConfigMaps on which a proxy depends: those of its pods, its
// session token, and the token with which it is registered.
func referencesOf(obj client.Object) []resources.Reference {
	proxy, ok := obj.(*coderv1alpha1.CoderWorkspaceProxy)
	if !ok {
		return nil
	}
	token := coderv1alpha1.TokenSecretReference{Name: resources.TokenSecretName(proxy)}
	if ref := proxy.Spec.ProxySessionTokenSecretRef; ref != nil {
		token = *ref
	}
	all := workload.ReferencesOf(resources.WorkspaceProxy(proxy, resources.WorkspaceProxyInputs{Token: token}))
	if ref := proxy.Spec.Bootstrap.CredentialsSecretRef; ref != nil {
		all = append(all, resources.Reference{
			Kind: resources.KindSecret, Name: ref.Name, Keys: []string{cmp.Or(ref.Key, coderv1alpha1.SecretKeyToken)},
		})
	}
	return all
}
