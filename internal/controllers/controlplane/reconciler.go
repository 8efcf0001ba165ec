package controlplane

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/access"
	"github.com/coder-k8s/coder-k8s/internal/coderd/licensing"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/steps"
)

// Access is the part of access.Manager that the controller uses.
type Access interface {
	Ensure(ctx context.Context, req access.Request) (access.Result, error)
	Revoke(ctx context.Context, req access.Request) (access.Result, error)
	Forget(controlPlane types.UID)
}

// Coder is the part of Coder's API that the controller uses without a token.
type Coder interface {
	BuildInfo(ctx context.Context) (coderd.BuildInfo, error)
}

// Reconciler reconciles CoderControlPlanes. Use New to create one.
type Reconciler struct {
	kit     *workload.Toolkit
	access  Access
	connect func(url string) (Coder, error)
	// operator returns a client for a Coder with a token, to manage its licenses.
	operator func(coderd.Config) (licensing.Coder, error)
	licenses *licensing.Manager

	prefixes prefixes
	rests    rests
	refusals refusals
}

// Reconcile runs one pass.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cp := &coderv1alpha1.CoderControlPlane{}
	if err := r.kit.Client.Get(ctx, req.NamespacedName, cp); err != nil {
		if apierrors.IsNotFound(err) {
			r.gone(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.refusals.take(req.NamespacedName) {
		r.access.Forget(cp.UID)
		r.rests.forget(req.NamespacedName)
	}
	if cp.Status.ObjectNamePrefix == nil && !undecided(cp) {
		r.prefixes.release(req.NamespacedName)
	}
	s := r.newScope(cp)
	s.Outcome = steps.Run(ctx, s, r.stepsFor(s))
	r.rests.remember(s)
	if s.Released {
		r.gone(req.NamespacedName)
	}
	result, err := r.kit.Finish(ctx, &s.Pass, func() *coderv1alpha1.WorkloadStatus {
		cp.Status = statusOf(s)
		return &cp.Status.WorkloadStatus
	}, r.recheck(s))
	if !s.Released {
		r.expiries(cp)
	}
	return result, err
}

// gone drops the state of a control plane that no longer exists.
func (r *Reconciler) gone(key types.NamespacedName) {
	r.kit.Gone(kind(), key)
	r.prefixes.release(key)
	r.rests.forget(key)
	r.refusals.take(key)
	r.licenses.Forget(key.String())
}

// expiries updates the metrics with the expiry times of the token and the license.
func (r *Reconciler) expiries(cp *coderv1alpha1.CoderControlPlane) {
	var token, license *time.Time
	if at := cp.Status.OperatorTokenExpiresAt; at != nil {
		token = &at.Time
	}
	if at := cp.Status.LicenseExpiresAt; at != nil {
		license = &at.Time
	}
	r.kit.Metrics.SetTokenExpiry(cp.Namespace, cp.Name, token)
	r.kit.Metrics.SetLicenseExpiry(cp.Namespace, cp.Name, license)
}

// recheck returns when to reconcile a working control plane again.
func (r *Reconciler) recheck(s *scope) time.Duration {
	if result := s.license.result; result != nil {
		return steps.Sooner(r.recheckAccess(s), result.RequeueAfter)
	}
	return r.recheckAccess(s)
}

func (r *Reconciler) recheckAccess(s *scope) time.Duration {
	switch {
	case s.build == nil:
		return 0
	case s.believed:
		return r.rests.left(s)
	case s.access == nil:
		return workload.RestInterval
	}
	return steps.Sooner(workload.RestInterval, s.access.RequeueAfter)
}

// Names of the control plane's own steps.
const (
	stepCoder   = "coder"
	stepAccess  = "operator access"
	stepKeep    = "service until revocation"
	stepRevoke  = "revocation"
	stepLicense = "license"
	stepPrefix  = "object name prefix"
)

type step = steps.Step[*scope]

func (r *Reconciler) stepsFor(s *scope) []step {
	if s.Deleting() {
		return []step{
			{Name: stepRevoke, Run: r.revokeOnDeletion},
			workload.Step[*scope](workload.StepWorkspaces, r.kit.RemoveWorkspaceAccess),
			workload.Step[*scope](workload.StepRelease, r.kit.Release, stepRevoke, workload.StepWorkspaces),
		}
	}
	begin, shared := workload.Begin[*scope](r.kit), workload.Steps[*scope](r.kit, workload.Needs{})
	if s.accessDisabled() {
		return slices.Concat(begin, []step{{Name: stepKeep, Run: r.keepService}}, shared,
			[]step{{Name: stepRevoke, Needs: []string{workload.StepService}, Run: r.revokeDisabled}})
	}
	return append(slices.Concat(begin, shared),
		step{Name: stepPrefix, Needs: []string{workload.StepFinalizer}, Run: r.decidePrefix},
		step{Name: stepCoder, Needs: []string{workload.StepDeployment, workload.StepService}, Run: r.askCoder},
		step{Name: stepAccess, Needs: []string{stepCoder}, Run: r.ensureAccess},
		step{Name: stepLicense, Needs: []string{stepAccess}, Run: r.ensureLicense},
	)
}

// scope is the state of one reconciliation of one control plane: the object itself and the results
// of the steps. The status is computed only from the scope.
type scope struct {
	workload.Pass
	// cp is the Object of the pass.
	cp *coderv1alpha1.CoderControlPlane

	// build is Coder's answer about its version, and coderErr the error of that request. justReady
	// reports that the pods changed recently, so that an unreachable Coder is expected.
	build     *coderd.BuildInfo
	coderErr  error
	justReady bool
	// access is the state of the operator's access, or nil if it was not checked.
	access *access.Result
	// basis identifies the cluster objects on which both depend.
	basis *basis
	// believed reports that build and access are the cached results of an earlier pass.
	believed bool
	license  license
	// prefix is the prefix of the names of objects, or nil if it is not decided.
	prefix *string
}

// kind returns the description of control planes for the shared steps.
func kind() workload.Kind {
	return workload.Kind{
		Name: "CoderControlPlane", Noun: "control plane", Finalizer: coderv1alpha1.FinalizerCleanup,
		OwnerLabel: coderv1alpha1.LabelControlPlane, OwnerNamespaceLabel: coderv1alpha1.LabelControlPlaneNamespace,
	}
}

// newScope starts a pass.
func (r *Reconciler) newScope(cp *coderv1alpha1.CoderControlPlane) *scope {
	s := &scope{cp: cp, prefix: cp.Status.ObjectNamePrefix}
	s.Pass = r.kit.NewPass(kind(), cp, &cp.Status.WorkloadStatus, resources.ControlPlane(cp, resources.ControlPlaneInputs{
		ClusterDomain: r.kit.ClusterDomain, OperatorNamespace: r.kit.OperatorNamespace, PodIPv6: r.kit.PodIPv6,
	}))
	s.Hooks = workload.Hooks{
		Unconfigured: s.databaseMissing, Explain: databaseTrouble, MissingReference: s.databaseSecretMissing,
	}
	return s
}

// inputs returns the values that the builders of a control plane need in addition to the spec.
func (s *scope) inputs() resources.ControlPlaneInputs {
	in := resources.ControlPlaneInputs{
		EnvFromNames: s.Workload.EnvFromNames, OperatorNamespace: s.Workload.OperatorNamespace,
		Checksum: s.Workload.Checksum, KeepReplicas: s.Workload.KeepReplicas, Adopted: s.Workload.Adopted,
	}
	if s.Workload.Serving != nil {
		in.ClusterDomain, in.PodIPv6 = s.Workload.Serving.ClusterDomain, s.Workload.Serving.PodIPv6
	}
	return in
}

func (s *scope) accessDisabled() bool { return s.cp.Spec.OperatorAccess.Disabled }

func (s *scope) url() string { return resources.URL(s.Workload) }
