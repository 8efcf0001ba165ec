package controlplane

import (
	"context"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	recordsv1alpha1 "github.com/coder-k8s/coder-k8s/api/records/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controlplane/access"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controlplane/licensing"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
	"github.com/coder-k8s/coder-k8s/internal/upgrade"
)

// Reconciler reconciles CoderControlPlanes. Use New to create one.
type Reconciler struct {
	kit      *framework.Toolkit
	access   *access.Manager
	licenses *licensing.Manager

	prefixes prefixes
	answers  ensure.Cache[types.NamespacedName, answer]
	refusals refusals
}

// New creates the controller. Use SetupWithManager to register it.
func New(kit *framework.Toolkit) *Reconciler {
	return &Reconciler{
		kit:      kit,
		access:   &access.Manager{Client: kit.Uncached, Clock: kit.Clock, NewClient: kit.NewClient},
		licenses: &licensing.Manager{Clock: kit.Clock},
		prefixes: prefixes{first: map[string]holder{}},
		refusals: refusals{events: make(chan event.GenericEvent, refusalsAtOnce)},
	}
}

// SetupWithManager registers the controller and its watches. It runs on the leader only.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr manager.Manager) error {
	return r.kit.SetUp(ctx, mgr, framework.Registration{
		Kind: kind(), Name: "codercontrolplane", For: &coderv1alpha1.CoderControlPlane{}, References: references, Reconciler: r,
		Further: func(b *builder.Builder) {
			// A CoderMirrorState has the namespace and the name of its control plane.
			b.Watches(&recordsv1alpha1.CoderMirrorState{}, &handler.EnqueueRequestForObject{})
			b.WatchesRawSource(source.Channel(r.refusals.events, &handler.TypedEnqueueRequestForObject[client.Object]{}))
			b.Watches(&coderv1alpha1.CoderBackup{}, handler.EnqueueRequestsFromMapFunc(upgradeOf))
			b.Watches(&coderv1alpha1.CoderBackupSchedule{}, handler.EnqueueRequestsFromMapFunc(upgradeOf))
			b.Watches(&coderv1alpha1.CoderControlPlane{}, handler.EnqueueRequestsFromMapFunc(r.siblings),
				builder.WithPredicates(predicate.GenerationChangedPredicate{}))
		},
	})
}

// references returns the Secrets and ConfigMaps whose content a control plane depends on: those of
// its pods, and those that the operator reads.
func references(obj client.Object) []resources.Reference {
	cp := obj.(*coderv1alpha1.CoderControlPlane)
	all := framework.ReferencesOf(resources.ControlPlane(cp, resources.Cluster{}))
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
		r.answers.Forget(req.NamespacedName)
	}
	if cp.Status.ObjectNamePrefix == nil && !undecided(cp) {
		r.prefixes.release(req.NamespacedName)
	}
	s := r.newScope(cp)
	s.Run(ctx, r.stepsFor(s))
	switch {
	case !s.cachedUntil.IsZero():
	case s.build == nil || s.access == nil || s.access.State != ensure.Ready || !s.Available():
		r.answers.Forget(req.NamespacedName)
	default:
		kept := *s.access
		kept.Events = nil
		r.answers.Put(req.NamespacedName, ensure.Entry[answer]{
			Value: answer{*s.build, kept}, Digest: s.basis, Until: s.Now.Add(ensure.Sooner(framework.RestInterval, kept.RequeueAfter)),
		})
	}
	if s.Released {
		r.gone(req.NamespacedName)
	}
	result, err := r.kit.Finish(ctx, &s.Pass, func() *coderv1alpha1.WorkloadStatus {
		cp.Status = statusOf(s)
		return &cp.Status.WorkloadStatus
	}, recheck(s))
	if !s.Released {
		r.kit.Metrics.SetExpiries(cp.Namespace, cp.Name, cp.Status.OperatorTokenExpiresAt, cp.Status.LicenseExpiresAt)
	}
	return result, err
}

func (r *Reconciler) gone(key types.NamespacedName) {
	r.kit.Gone(kind(), key)
	r.prefixes.release(key)
	r.answers.Forget(key)
	r.refusals.take(key)
	r.licenses.Forget(key.String())
}

func recheck(s *scope) time.Duration {
	after := time.Duration(0)
	switch {
	case s.build == nil:
	case !s.cachedUntil.IsZero():
		after = s.cachedUntil.Sub(s.Now)
	case s.access == nil:
		after = framework.RestInterval
	default:
		after = ensure.Sooner(framework.RestInterval, s.access.RequeueAfter)
	}
	if result := s.license.result; result != nil {
		return ensure.Sooner(after, result.RequeueAfter)
	}
	return after
}

// Names of the control plane's own steps that others need or read.
const (
	stepCoder   = "coder"
	stepAccess  = "operator access"
	stepRevoke  = "revocation"
	stepShared  = "shared database"
	stepRestore = "restore"
	stepUpgrade = "upgrade"
	stepResume  = "pods of a stopped upgrade"
)

// stepsFor returns the control plane's own steps and those that all kinds share (framework/steps.go).
func (r *Reconciler) stepsFor(s *scope) []framework.Step {
	if s.Deleting() {
		return []framework.Step{
			framework.NewStep(stepRevoke, s, r.revokeOnDeletion),
			framework.NewStep(framework.StepOrphaned, &s.Pass, r.kit.FindOrphaned),
			framework.NewStep(framework.StepWorkspaces, &s.Pass, r.kit.RemoveWorkspaceAccess, framework.StepOrphaned),
			framework.NewStep(stepResume, s, r.resumeOrphaned, framework.StepOrphaned),
			framework.NewStep(framework.StepRelease, &s.Pass, r.kit.Release, stepRevoke, framework.StepWorkspaces, stepResume),
		}
	}
	begin := append(r.kit.Begin(&s.Pass),
		framework.NewStep(stepShared, s, r.findSharedDatabase, framework.StepFinalizer),
		framework.NewStep("version", s, decideVersion, framework.StepFinalizer, stepShared),
		framework.NewStep(stepUpgrade, s, r.planUpgrade, framework.StepFinalizer, stepShared),
		framework.NewStep(stepRestore, s, r.restoreDatabase, framework.StepFinalizer, stepUpgrade))
	shared := r.kit.Steps(&s.Pass, stepRestore, stepUpgrade)
	advance := framework.NewStep("progress of the upgrade", s, r.advanceUpgrade, stepUpgrade, framework.StepDeployment)
	if s.accessDisabled() {
		return slices.Concat(begin, []framework.Step{framework.NewStep("service until revocation", s, r.keepService)}, shared,
			[]framework.Step{framework.NewStep(stepRevoke, s, r.revokeDisabled, framework.StepService), advance})
	}
	return append(slices.Concat(begin, shared),
		framework.NewStep("object name prefix", s, r.decidePrefix, framework.StepFinalizer),
		framework.NewStep("first read of the mirror", s, r.readMirror, framework.StepFinalizer),
		framework.NewStep(stepCoder, s, r.askCoder, framework.StepDeployment, framework.StepService),
		framework.NewStep(stepAccess, s, r.ensureAccess, stepCoder),
		framework.NewStep("license", s, r.ensureLicense, stepAccess),
		advance,
	)
}

// scope is the state of one reconciliation of one control plane: the object itself and the results
// of the steps. The status is computed only from the scope.
type scope struct {
	framework.Pass
	// cp is the Object of the pass.
	cp *coderv1alpha1.CoderControlPlane

	// build is Coder's answer about its version, and coderErr the error of that request. justReady
	// reports that the pods changed recently, so that an unreachable Coder is expected.
	build     *coderd.BuildInfo
	coderErr  error
	justReady bool
	// access is the state of the operator's access, or nil if it was not checked.
	access *access.Result
	// basis is a digest of the cluster state from which build and access were determined.
	basis ensure.Digest
	// cachedUntil is set if build and access are the cached results of an earlier pass. It is the time
	// until which they are valid.
	cachedUntil time.Time
	license     license
	// prefix is the prefix of the names of objects, or nil if it is not decided.
	prefix *string
	// unread is the mirror's state of a control plane whose objects the aggregated API never had, or nil.
	unread *recordsv1alpha1.MirrorStateSpec
	// incomplete is the number of objects that the aggregated API could not store, or not completely.
	incomplete int32
	// quarantined reports that the aggregated API cannot use this Coder, for example because the operator's account no
	// longer sees all objects.
	quarantined bool
	// refused says why the pods keep their image, or is nil. versionComes reports that this may end
	// with Coder's first response.
	refused      *framework.Problem
	versionComes bool
	// facts and decision are about the image of the spec.
	facts    upgrade.Facts
	decision upgrade.Decision
	// upgrade is the upgrade that runs or ran last, as it is after this pass, or nil. upgradeProblem is why
	// it cannot begin.
	upgrade        *coderv1alpha1.UpgradeStatus
	upgradeProblem *framework.Problem
	// unreachable is why the Jobs of the current phase cannot reach the database, or empty.
	unreachable string
	// restore is the Job that restores the database, or nil if none is needed or known. restoreProblem is
	// why there is none.
	restore        *framework.JobRun
	restoreProblem *framework.Problem
	// sharedWith is the name of an older control plane with the same database, or empty.
	sharedWith string
	// overlapping is the name of a control plane with the same database and a Coder from before 2.39, or empty.
	overlapping string
}

func kind() framework.Kind {
	return framework.Kind{
		Name: "CoderControlPlane", Noun: "control plane", Finalizer: coderv1alpha1.FinalizerCleanup,
		OwnerLabel: coderv1alpha1.LabelControlPlane, OwnerNamespaceLabel: coderv1alpha1.LabelControlPlaneNamespace,
	}
}

func (r *Reconciler) newScope(cp *coderv1alpha1.CoderControlPlane) *scope {
	s := &scope{cp: cp, prefix: cp.Status.ObjectNamePrefix, upgrade: cp.Status.Upgrade.DeepCopy()}
	s.Pass = r.kit.NewPass(kind(), cp, &cp.Status.WorkloadStatus, resources.ControlPlane(cp, r.kit.Cluster))
	s.Hooks = framework.Hooks{
		Unconfigured: s.databaseMissing, Explain: s.databaseTrouble, MissingReference: s.databaseSecretMissing,
	}
	return s
}

func (s *scope) accessDisabled() bool { return s.cp.Spec.OperatorAccess.Disabled }

func (s *scope) url() string { return resources.URL(s.Workload) }

// refusalsAtOnce is the capacity of the queue of reported control planes.
const refusalsAtOnce = 1024

// refusals are the control planes for which other code in this process saw that Coder rejects the
// operator's token or does not work, and that were not reconciled since.
type refusals struct {
	events chan event.GenericEvent
	// waiting contains the names of these control planes.
	waiting sync.Map
}

// Refused requests an immediate pass over a control plane that does not reuse earlier results about
// its token and its Coder. Call it if Coder rejected the token (401) or could not serve the
// request, for example because its database is unreachable. It never blocks.
func (r *Reconciler) Refused(key types.NamespacedName) {
	if _, waits := r.refusals.waiting.LoadOrStore(key, true); waits {
		return
	}
	name := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	select {
	case r.refusals.events <- event.GenericEvent{Object: name}:
	default:
		// The queue is full. The next failure reports the control plane again.
		r.refusals.waiting.Delete(key)
	}
}

// take reports whether a control plane was reported, and removes it.
func (r *refusals) take(key types.NamespacedName) bool {
	_, refused := r.waiting.LoadAndDelete(key)
	return refused
}
