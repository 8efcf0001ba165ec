package provisioner

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/provisioner/keys"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/steps"
)

func kind() workload.Kind {
	return workload.Kind{
		Name: "CoderProvisioner", Noun: "provisioner", Finalizer: coderv1alpha1.FinalizerProvisionerKey,
		OwnerLabel: coderv1alpha1.LabelProvisioner, OwnerNamespaceLabel: coderv1alpha1.LabelProvisionerNamespace,
	}
}

// Reconcile runs one pass.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cr := &coderv1alpha1.CoderProvisioner{}
	if err := r.kit.Client.Get(ctx, req.NamespacedName, cr); err != nil {
		if apierrors.IsNotFound(err) {
			r.kit.Gone(kind(), req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	s := &scope{cr: cr}
	s.inputs.OperatorNamespace = r.kit.OperatorNamespace
	s.Pass = r.kit.NewPass(kind(), cr, &cr.Status.WorkloadStatus, resources.Provisioner(cr, s.inputs))
	s.Hooks.MissingReference = s.missingReference
	s.Outcome = steps.Run(ctx, s, r.stepsFor(s))
	return r.kit.Finish(ctx, &s.Pass, func() *coderv1alpha1.WorkloadStatus {
		cr.Status = statusOf(s)
		return &cr.Status.WorkloadStatus
	}, s.recheck())
}

// recheck returns when to reconcile a working provisioner again.
func (s *scope) recheck() (after time.Duration) {
	after = workload.RestInterval
	for _, other := range []time.Duration{s.key.RequeueAfter, s.replaced.RequeueAfter} {
		after = steps.Sooner(after, other)
	}
	return after
}

// Names of the steps in addition to those of package workload.
const (
	stepControlPlane = "control plane"
	stepKey          = "key"
	stepInputs       = "inputs"
	stepReplaced     = "replaced keys"
	stepStop         = "stop"
	stepWithdraw     = "withdrawal"
)

type step = steps.Step[*scope]

func (r *Reconciler) stepsFor(s *scope) []step {
	if s.Deleting() {
		return []step{
			{Name: stepControlPlane, Run: r.findControlPlane},
			{Name: stepStop, Needs: []string{stepControlPlane}, Run: r.stop},
			{Name: stepWithdraw, Needs: []string{stepStop}, Run: r.withdraw},
			workload.Step[*scope](workload.StepWorkspaces, r.kit.RemoveWorkspaceAccess, stepStop),
			{Name: workload.StepRelease, Needs: []string{stepWithdraw, workload.StepWorkspaces}, Run: r.release},
		}
	}
	return slices.Concat(
		workload.Begin[*scope](r.kit),
		[]step{
			{Name: stepControlPlane, Needs: []string{workload.StepFinalizer}, Run: r.findControlPlane},
			{Name: stepKey, Needs: []string{stepControlPlane}, Run: r.ensureKey},
			{Name: stepInputs, Needs: []string{stepKey}, Run: r.gatherInputs},
		},
		workload.Steps[*scope](r.kit, workload.Needs{References: []string{stepInputs}}),
		[]step{{Name: stepReplaced, Needs: []string{workload.StepDeployment}, Run: r.dropReplaced}},
	)
}

// scope is the state of one reconciliation of one provisioner: the object itself and the results of
// the steps. The status is computed only from the scope.
type scope struct {
	workload.Pass
	// cr is the provisioner as the cluster has it, with the status of the last write.
	cr *coderv1alpha1.CoderProvisioner
	// cp is its control plane, or nil if there is none.
	cp *coderv1alpha1.CoderControlPlane
	// inputs contains the values that the builders need in addition to the spec.
	inputs resources.ProvisionerInputs

	// key is the state of the key that the operator creates. It is empty if the operator creates
	// none. replaced is the state of the replaced keys, and left the state of the keys during a
	// deletion.
	key, replaced, left keys.Result
	// missing is the reason why the daemons cannot use the credentials of the spec.
	missing *workload.Problem
	// waits describes what a deletion waits for.
	waits string
}

// organizationProblem returns a problem if the spec combines an organization with a pre-shared key.
// The daemon does not accept an organization with such a key.
func (s *scope) organizationProblem() *workload.Problem {
	if s.cr.Spec.PSKSecretRef == nil || resources.OrganizationName(s.cr) == "default" {
		return nil
	}
	return &workload.Problem{Reason: coderv1alpha1.ReasonOrganizationNotSelectable, Message: fmt.Sprintf(
		"daemons with a pre-shared key work for the default organization, not for %q; remove spec.organizationName, or use a provisioner key",
		s.cr.Spec.OrganizationName)}
}

// missingReference returns a problem if the missing Secret contains the daemons' credentials.
func (s *scope) missingReference(ref resources.Reference, key string) *workload.Problem {
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
	s.missing = &workload.Problem{Reason: coderv1alpha1.ReasonSecretMissing, Message: message}
	return s.missing
}
