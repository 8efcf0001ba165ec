package provisioner

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
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

func kind() framework.Kind {
	return framework.Kind{
		Name: "CoderProvisioner", Noun: "provisioner", Finalizer: coderv1alpha1.FinalizerProvisionerKey,
		OwnerLabel: coderv1alpha1.LabelProvisioner, OwnerNamespaceLabel: coderv1alpha1.LabelProvisionerNamespace,
	}
}

// Reconcile runs one pass.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cr := &coderv1alpha1.CoderProvisioner{}
	if found, err := r.kit.Read(ctx, kind(), req, cr); !found {
		return ctrl.Result{}, err
	}
	s := &scope{cr: cr}
	s.inputs.Cluster = r.kit.Cluster
	s.Pass = r.kit.NewPass(kind(), cr, &cr.Status.WorkloadStatus, resources.Provisioner(cr, s.inputs))
	s.Hooks.MissingReference = s.missingReference
	s.Run(ctx, r.stepsFor(s))
	return r.kit.Finish(ctx, &s.Pass, func() *coderv1alpha1.WorkloadStatus {
		cr.Status = statusOf(s)
		return &cr.Status.WorkloadStatus
	}, ensure.Sooner(framework.RestInterval, ensure.Sooner(s.held, ensure.Sooner(s.key.RequeueAfter, s.replaced.RequeueAfter))))
}

// Names of the steps that others need, in addition to those of package framework.
const (
	stepControlPlane = "control plane"
	stepKey          = "key"
	stepInputs       = "inputs"
	stepStop         = "stop"
	stepWithdraw     = "withdrawal"
)

func (r *Reconciler) stepsFor(s *scope) []framework.Step {
	if s.Deleting() {
		return []framework.Step{
			framework.NewStep(stepControlPlane, s, r.findControlPlane),
			framework.NewStep(framework.StepOrphaned, &s.Pass, r.kit.FindOrphaned),
			framework.NewStep(stepStop, s, r.stop, stepControlPlane, framework.StepOrphaned),
			framework.NewStep(stepWithdraw, s, r.withdraw, stepStop),
			framework.NewStep(framework.StepWorkspaces, &s.Pass, r.kit.RemoveWorkspaceAccess, stepStop),
			framework.NewStep(framework.StepRelease, s, r.release, stepWithdraw, framework.StepWorkspaces),
		}
	}
	return slices.Concat(
		r.kit.Begin(&s.Pass),
		[]framework.Step{
			framework.NewStep(stepControlPlane, s, r.findControlPlane, framework.StepFinalizer),
			framework.NewStep("pods of a lost upgrade", s, r.resumeAbandoned, stepControlPlane),
			framework.NewStep(stepKey, s, r.ensureKey, stepControlPlane),
			framework.NewStep(stepInputs, s, r.gatherInputs, stepKey),
		},
		r.kit.Steps(&s.Pass, stepInputs),
		[]framework.Step{framework.NewStep("replaced keys", s, r.dropReplaced, framework.StepDeployment)},
	)
}

// scope is the state of one reconciliation of one provisioner: the object itself and the results of
// the steps. The status is computed only from the scope.
type scope struct {
	framework.Pass
	// cr is the provisioner as the cluster has it, with the status of the last write.
	cr *coderv1alpha1.CoderProvisioner
	// cp is its control plane, or nil if there is none.
	cp *coderv1alpha1.CoderControlPlane
	// inputs contains the values that the builders need in addition to the spec.
	inputs resources.ProvisionerInputs

	// key is the state of the key that the operator creates. It is empty if the operator creates
	// none. replaced is the state of the replaced keys.
	key, replaced keys.Result
	// missing is the reason why the daemons cannot use the credentials of the spec.
	missing *framework.Problem
	// held is how long the pods stay stopped at most for an upgrade of the control plane, or 0.
	held time.Duration
	// waits describes what a deletion waits for.
	waits string
}

// organizationProblem returns a problem if the spec combines an organization with a pre-shared key.
// The daemon does not accept an organization with such a key.
func (s *scope) organizationProblem() *framework.Problem {
	if s.cr.Spec.PSKSecretRef == nil || resources.OrganizationName(s.cr) == "default" {
		return nil
	}
	return &framework.Problem{Reason: coderv1alpha1.ReasonOrganizationNotSelectable, Message: fmt.Sprintf(
		"daemons with a pre-shared key work for the default organization, not for %q; remove spec.organizationName, or use a provisioner key",
		s.cr.Spec.OrganizationName)}
}

// missingReference returns a problem if the missing Secret contains the daemons' credentials.
func (s *scope) missingReference(ref resources.Reference, key string) *framework.Problem {
	source := resources.KeySource(s.cr, nil)
	if source == nil || ref.Kind != resources.KindSecret || ref.Name != source.Name || key != "" && key != source.Key {
		return nil
	}
	field := "spec.key.secretRef"
	if s.cr.Spec.PSKSecretRef != nil {
		field = "spec.pskSecretRef"
	}
	message := fmt.Sprintf("Secret %q of %s does not exist; create it", ref.Name, field)
	if key != "" {
		message = fmt.Sprintf("Secret %q of %s has no key %q; add it", ref.Name, field, key)
	}
	s.missing = &framework.Problem{Reason: coderv1alpha1.ReasonSecretMissing, Message: message}
	return s.missing
}

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
