package workspaceproxy

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	workloadresources "github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workspaceproxy/registration"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workspaceproxy/resources"
)

// IndexControlPlane is the name of the index of workspace proxies by the control plane that they
// name.
const IndexControlPlane = ".spec.controlPlaneRef.name"

// Options configure the controller. The zero value is valid.
type Options struct {
	// Registrar registers proxies in Coder. Nil means a registration.Manager with an uncached
	// client.
	Registrar Registrar
	// Refused is called when Coder rejects the operator's token of a control plane, so that the
	// control plane is reconciled immediately. It must return quickly. It may be nil.
	Refused func(controlPlane types.NamespacedName)
	// UserAgent is the user agent of the requests to Coder.
	UserAgent string
}

// New creates the controller of a manager with the Toolkit that all kinds share. Use
// SetupWithManager to register it.
func New(mgr manager.Manager, kit *workload.Toolkit, options Options) (*Reconciler, error) {
	if options.Registrar == nil {
		options.Registrar = &registration.Manager{
			Client: kit.Uncached, Reader: mgr.GetClient(), Clock: kit.Clock, NewClient: coderd.New,
			Observe: kit.Metrics.Observe, Refused: options.Refused, UserAgent: options.UserAgent,
		}
	}
	return &Reconciler{kit: kit, registrar: options.Registrar}, nil
}

// SetupWithManager registers the controller and its watches. It runs on the leader only.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr manager.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &coderv1alpha1.CoderWorkspaceProxy{}, IndexControlPlane, controlPlaneOf); err != nil {
		return fmt.Errorf("indexing workspace proxies by control plane: %w", err)
	}
	return r.kit.SetUp(ctx, mgr, workload.Registration{
		Kind: kind(), Name: "coderworkspaceproxy",
		For: &coderv1alpha1.CoderWorkspaceProxy{}, List: &coderv1alpha1.CoderWorkspaceProxyList{},
		References: referencesOf, Reconciler: r,
		Further: func(b *builder.Builder) {
			b.Watches(&coderv1alpha1.CoderControlPlane{}, handler.EnqueueRequestsFromMapFunc(r.proxiesOf),
				builder.WithPredicates(changesForProxies()))
		},
	})
}

func controlPlaneOf(obj client.Object) []string {
	proxy, ok := obj.(*coderv1alpha1.CoderWorkspaceProxy)
	if !ok || proxy.Spec.ControlPlaneRef == nil {
		return nil
	}
	return []string{proxy.Spec.ControlPlaneRef.Name}
}

// proxiesOf returns requests for the proxies that name a control plane.
func (r *Reconciler) proxiesOf(ctx context.Context, cp client.Object) []reconcile.Request {
	list := &coderv1alpha1.CoderWorkspaceProxyList{}
	if err := r.kit.Client.List(ctx, list, client.InNamespace(cp.GetNamespace()), client.MatchingFields{IndexControlPlane: cp.GetName()}); err != nil {
		log.FromContext(ctx).Error(err, "Looking for the workspace proxies of a control plane failed", "controlPlane", cp.GetName())
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: list.Items[i].Namespace, Name: list.Items[i].Name}})
	}
	return requests
}

// referencesOf returns the Secrets and ConfigMaps on which a proxy depends: those of its pods, its
// session token, and the token with which it is registered.
func referencesOf(obj client.Object) []workloadresources.Reference {
	proxy, ok := obj.(*coderv1alpha1.CoderWorkspaceProxy)
	if !ok {
		return nil
	}
	token := coderv1alpha1.TokenSecretReference{Name: resources.TokenSecretName(proxy)}
	if ref := proxy.Spec.ProxySessionTokenSecretRef; ref != nil {
		token = *ref
	}
	all := workload.ReferencesOf(resources.Workload(proxy, resources.Inputs{Token: token}))
	if ref := proxy.Spec.Bootstrap.CredentialsSecretRef; ref != nil {
		all = append(all, workloadresources.Reference{
			Kind: workloadresources.KindSecret, Name: ref.Name, Keys: []string{cmp.Or(ref.Key, coderv1alpha1.SecretKeyToken)},
		})
	}
	return all
}
