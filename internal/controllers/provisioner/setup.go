package provisioner

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/provisioner/keys"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

// Reconciler reconciles CoderProvisioners. Use New to create one.
type Reconciler struct {
	kit     *framework.Toolkit
	keys    *keys.Manager
	refused func(controlPlane types.NamespacedName)

	// stopped records, by uid, when the pods of a provisioner that is being deleted were seen to be
	// gone.
	stopped sync.Map
}

// New creates the controller. Use SetupWithManager to register it. refused is called when Coder
// rejects the operator's token of a control plane, so that the control plane is reconciled
// immediately. It must return quickly.
func New(kit *framework.Toolkit, refused func(controlPlane types.NamespacedName)) *Reconciler {
	r := &Reconciler{kit: kit, refused: refused}
	r.keys = &keys.Manager{Client: kit.Uncached, Clock: kit.Clock, Connect: r.connect}
	return r
}

// SetupWithManager registers the controller and its watches. It runs on the leader only.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr manager.Manager) error {
	return r.kit.SetUp(ctx, mgr, framework.Registration{
		Kind: kind(), Name: "coderprovisioner", For: &coderv1alpha1.CoderProvisioner{},
		References: references, ControlPlane: controlPlaneOf, Reconciler: r,
		Further: func(b *builder.Builder) {
			b.Watches(&coderv1alpha1.CoderProvisioner{}, handler.EnqueueRequestsFromMapFunc(r.siblings),
				builder.WithPredicates(predicate.GenerationChangedPredicate{}))
		},
	})
}

func references(obj client.Object) []resources.Reference {
	cr := obj.(*coderv1alpha1.CoderProvisioner)
	return framework.ReferencesOf(resources.Provisioner(cr, resources.ProvisionerInputs{
		KeySecret: &coderv1alpha1.ProvisionerKeySecretReference{Name: resources.KeySecretName(cr), Key: resources.KeySecretKey(cr)},
	}))
}

func controlPlaneOf(obj client.Object) *coderv1alpha1.ControlPlaneReference {
	return obj.(*coderv1alpha1.CoderProvisioner).Spec.ControlPlaneRef
}

// siblings returns requests for the provisioners that want the key that this one has, or had.
func (r *Reconciler) siblings(ctx context.Context, obj client.Object) []reconcile.Request {
	cr := obj.(*coderv1alpha1.CoderProvisioner)
	others, err := r.sharing(ctx, cr)
	if err != nil {
		log.FromContext(ctx).Error(err, "Could not list the provisioners with the same key", "name", cr.Name)
	}
	var requests []reconcile.Request
	for i := range others {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&others[i])})
	}
	return requests
}

func (r *Reconciler) connect(ctx context.Context, cp *coderv1alpha1.CoderControlPlane) (*coderd.Client, error) {
	missing := func(reason, format string, args ...any) error {
		return ensure.Unavailable(reason, time.Minute, "CoderControlPlane %q %s", cp.Name, fmt.Sprintf(format, args...))
	}
	ref := cp.Status.OperatorTokenSecretRef
	switch {
	case cp.Spec.OperatorAccess.Disabled:
		return nil, missing(coderv1alpha1.ReasonOperatorAccessDisabled,
			"has spec.operatorAccess.disabled, so the operator cannot create a key in it; give a key in spec.key.secretRef, or a pre-shared key in spec.pskSecretRef")
	case cp.Status.URL == "":
		return nil, missing(coderv1alpha1.ReasonControlPlaneUnavailable, "has no URL yet")
	case !cp.Status.OperatorAccessReady || ref == nil:
		return nil, missing(coderv1alpha1.ReasonOperatorAccessNotReady, "has no token for the operator yet; see its condition OperatorAccess")
	}
	secret := &corev1.Secret{}
	if err := r.kit.Uncached.Get(ctx, client.ObjectKey{Namespace: cp.Namespace, Name: ref.Name}, secret); err != nil {
		return nil, missing(coderv1alpha1.ReasonOperatorTokenSecretUnavailable, "stores the operator's token in Secret %q, which cannot be read: %v", ref.Name, err)
	}
	key := cmp.Or(ref.Key, coderv1alpha1.SecretKeyToken)
	token := strings.TrimSpace(string(secret.Data[key]))
	if token == "" {
		return nil, missing(coderv1alpha1.ReasonOperatorTokenSecretUnavailable, "stores the operator's token in Secret %q, which has no value for the key %q", ref.Name, key)
	}
	c, err := r.kit.NewClient(coderd.Config{
		URL: cp.Status.URL, Token: token, OnUnauthorized: func() { r.refused(client.ObjectKeyFromObject(cp)) },
	})
	if err != nil {
		return nil, missing(coderv1alpha1.ReasonControlPlaneUnavailable, "cannot be reached: %v", err)
	}
	return c, nil
}
