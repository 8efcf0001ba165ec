package controlplane

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/access"
	"github.com/coder-k8s/coder-k8s/internal/coderd/licensing"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

// Options configure the controller. The zero value is valid.
type Options struct {
	// Access manages the operator's access to Coder. Nil means an access.Manager with an uncached
	// client.
	Access Access
	// Connect returns a client for a Coder without a token. Nil means a client of package coderd.
	Connect func(url string) (Coder, error)
	// Operator returns a client for a Coder with the operator's token. Nil means a client of
	// package coderd.
	Operator func(coderd.Config) (licensing.Coder, error)
}

// New creates the controller of a manager. Use SetupWithManager to register it.
func New(mgr manager.Manager, kit *workload.Toolkit, options Options) (*Reconciler, error) {
	if options.Access == nil {
		options.Access = &access.Manager{Client: kit.Uncached, Clock: kit.Clock, NewClient: func(cfg coderd.Config) (*coderd.Client, error) {
			cfg.Observe = kit.Metrics.Observe
			return coderd.New(cfg)
		}}
	}
	return newReconciler(kit, options), nil
}

func newReconciler(kit *workload.Toolkit, options Options) *Reconciler {
	if options.Connect == nil {
		options.Connect = func(url string) (Coder, error) {
			return coderd.New(coderd.Config{URL: url, Timeout: answerTimeout, Observe: kit.Metrics.Observe})
		}
	}
	if options.Operator == nil {
		options.Operator = func(cfg coderd.Config) (licensing.Coder, error) { return coderd.New(cfg) }
	}
	return &Reconciler{
		kit: kit, access: options.Access, connect: options.Connect,
		operator: options.Operator, licenses: &licensing.Manager{Clock: kit.Clock},
		refusals: refusals{events: make(chan event.GenericEvent, refusalsAtOnce)},
	}
}

// SetupWithManager registers the controller and its watches. It runs on the leader only.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr manager.Manager) error {
	return r.kit.SetUp(ctx, mgr, workload.Registration{
		Kind: kind(), Name: "codercontrolplane",
		For: &coderv1alpha1.CoderControlPlane{}, List: &coderv1alpha1.CoderControlPlaneList{},
		References: references, Reconciler: r,
		Further: func(b *builder.Builder) { b.WatchesRawSource(r.refusals.source()) },
	})
}

// references returns the Secrets and ConfigMaps whose content a control plane depends on: those of
// its pods, and those that the operator reads.
func references(obj client.Object) []resources.Reference {
	cp, ok := obj.(*coderv1alpha1.CoderControlPlane)
	if !ok {
		return nil
	}
	all := workload.ReferencesOf(resources.ControlPlane(cp, resources.ControlPlaneInputs{}))
	secret := func(name string) {
		all = append(all, resources.Reference{Kind: resources.KindSecret, Name: name})
	}
	if ref := cp.Spec.OperatorAccess.TokenSecretRef; ref != nil {
		secret(ref.Name)
	}
	if ref := cp.Spec.LicenseSecretRef; ref != nil {
		secret(ref.Name)
	}
	return all
}
