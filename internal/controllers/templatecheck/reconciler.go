package templatecheck

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/agents"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

const (
	kindName = "CoderTemplateTest"
	// concurrency is the number of tests that are reconciled concurrently. A pass never waits for a build or a command.
	concurrency = 4
	// pollInterval is the time between two looks at a workspace that is built, checked or deleted.
	pollInterval = 2 * time.Second
)

// Connector provides the connections of a namespace. connections.Dynamic implements it.
type Connector interface {
	ForNamespace(ctx context.Context, namespace string) ([]connections.Connection, error)
}

// Reconciler reconciles CoderTemplateTests. Use New to create one.
type Reconciler struct {
	kit         *framework.Toolkit
	connections Connector
	commands    *commands

	mu sync.Mutex
	// starting are the tests that have started, and whose start the cache may not show yet.
	starting map[types.UID]bool
}

// New creates the controller. Use SetupWithManager to register it.
func New(kit *framework.Toolkit, connector Connector) *Reconciler {
	return &Reconciler{
		kit: kit, connections: connector, starting: map[types.UID]bool{},
		commands: &commands{run: through(agents.NewPool(nil)), runs: map[types.UID]*execution{}},
	}
}

// SetupWithManager registers the controller. It runs on the leader only.
func (r *Reconciler) SetupWithManager(_ context.Context, mgr manager.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("codertemplatetest").
		For(&coderv1alpha1.CoderTemplateTest{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).
		Complete(r.kit.Traced(kindName, r))
	if err != nil {
		return fmt.Errorf("making the controller of %s: %w", kindName, err)
	}
	return nil
}

// pass is one reconciliation of a test.
type pass struct {
	*Reconciler
	test *coderv1alpha1.CoderTemplateTest
	// read is the object as the cluster has it.
	read *coderv1alpha1.CoderTemplateTest
	now  time.Time
	// controlPlane may be nil, and so may client if Coder cannot be called.
	controlPlane *coderv1alpha1.CoderControlPlane
	client       *coderd.Client
	// first reports that this pass has started the test, so that no earlier one has requested a workspace.
	first bool
	// check is the check at which a pass ends.
	check string
}

// Reconcile runs one pass.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	test := &coderv1alpha1.CoderTemplateTest{}
	if err := r.kit.Client.Get(ctx, req.NamespacedName, test); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if test.Status.StartTime != nil || test.DeletionTimestamp != nil {
		r.started(test)
	}
	p := &pass{Reconciler: r, test: test, read: test.DeepCopy(), now: r.kit.Clock.Now()}
	after, err := p.run(ctx)
	if stop := ensure.Stopped(framework.Settled(err)); stop != nil {
		after, err = stop.After, nil
	}
	return ctrl.Result{RequeueAfter: after}, client.IgnoreNotFound(err)
}

// run runs a pass. It returns the time until the next one, or 0 if none is needed.
func (p *pass) run(ctx context.Context) (time.Duration, error) {
	status := &p.test.Status
	unavailable := p.connect(ctx)
	if p.test.DeletionTimestamp != nil {
		return p.release(ctx, unavailable)
	}
	if controllerutil.AddFinalizer(p.test, coderv1alpha1.FinalizerTemplateTest) {
		if err := p.kit.Client.Patch(ctx, p.test, framework.LockedPatch(p.read)); err != nil {
			return 0, fmt.Errorf("adding the finalizer: %w", err)
		}
		p.read = p.test.DeepCopy()
	}
	if status.CompletionTime == nil {
		err := unavailable
		if err == nil {
			err = p.advance(ctx)
		}
		stop := ensure.Stopped(err)
		if err != nil && stop == nil {
			return 0, err
		}
		if stop = p.expired(stop); stop != nil && stop.State == ensure.Waiting {
			p.waiting(stop)
			return stop.After, p.write(ctx)
		}
		// The result is written before the workspace is deleted.
		p.finish(stop)
		if err := p.write(ctx); err != nil {
			return 0, err
		}
		ready := meta.FindStatusCondition(p.test.Status.Conditions, coderv1alpha1.ConditionReady)
		kind := corev1.EventTypeNormal
		if ready.Status != metav1.ConditionTrue {
			kind = corev1.EventTypeWarning
		}
		p.event(kind, ready.Reason, ready.Message)
	}
	stop, err := p.cleanUp(ctx, unavailable)
	if err != nil {
		return 0, err
	}
	if stop != nil {
		return stop.After, p.write(ctx)
	}
	if err := p.write(ctx); err != nil {
		return 0, err
	}
	ttl := p.test.Spec.TTLSecondsAfterFinished
	if ttl == nil {
		return 0, nil
	}
	limit := time.Duration(*ttl) * time.Second
	if finished := p.test.Status.CompletionTime.Time; !coderd.Elapsed(p.now, finished, limit) {
		return finished.Add(limit).Sub(p.now), nil
	}
	return 0, p.kit.Client.Delete(ctx, p.test, client.Preconditions{UID: &p.test.UID})
}

// advance takes the next steps of a test. It returns nil if the test has succeeded, and otherwise an ensure.Stop that says
// what the test waits for or why it failed.
func (p *pass) advance(ctx context.Context) error {
	if p.test.Status.StartTime == nil {
		if err := p.start(ctx); err != nil {
			return err
		}
	}
	if p.test.Status.WorkspaceID == "" {
		if err := p.create(ctx); err != nil {
			return err
		}
	}
	return p.observe(ctx)
}

// expired returns the failure of a test that has waited for too long, and otherwise the Stop unchanged.
func (p *pass) expired(stop *ensure.Stop) *ensure.Stop {
	if stop == nil || stop.State != ensure.Waiting {
		return stop
	}
	limit := time.Duration(p.test.Spec.TimeoutSeconds) * time.Second
	started := p.test.Status.StartTime
	switch {
	case started != nil && coderd.Elapsed(p.now, started.Time, limit):
		return ensure.Fails(coderv1alpha1.ReasonTimedOut, 0, "the checks did not all pass within %s: %s", limit, stop.Message)
	case started != nil, stop.Reason == coderv1alpha1.ReasonTooManyTests, stop.Reason == coderv1alpha1.ReasonControlPlaneUnavailable:
		// The time does not run before the test starts if others delay it.
		return stop
	case coderd.Elapsed(p.now, p.test.CreationTimestamp.Time, limit):
		return ensure.Fails(stop.Reason, 0, "the test could not start within %s: %s", limit, stop.Message)
	}
	return stop
}

// connect finds the control plane and the client of its Coder. Otherwise it returns an ensure.Stop, or the error of a read.
func (p *pass) connect(ctx context.Context) (err error) {
	ref, namespace := p.test.Spec.ControlPlaneRef, p.test.Namespace
	if p.controlPlane, err = p.kit.ControlPlane(ctx, namespace, &ref); err != nil {
		return err
	}
	unavailable := func(format string, args ...any) error {
		return ensure.Waits(coderv1alpha1.ReasonControlPlaneUnavailable, framework.PollInterval, format, args...)
	}
	if p.controlPlane == nil {
		return unavailable("there is no CoderControlPlane %q in namespace %q", ref.Name, namespace)
	}
	all, err := p.connections.ForNamespace(ctx, namespace)
	for i := range all {
		if all[i].ControlPlane.Name == ref.Name {
			p.client = all[i].Client
			return nil
		}
	}
	if missing, ok := errors.AsType[*connections.UnavailableError](err); ok || err == nil {
		if missing != nil {
			return unavailable("%s", missing)
		}
		return unavailable("CoderControlPlane %q is being deleted, or its operator access is disabled", ref.Name)
	}
	return err
}

// waits returns the Stop with which a pass waits for a Coder that did not answer a request as expected. It returns other errors
// unchanged.
func waits(err error) error {
	if _, ok := errors.AsType[*coderd.Error](err); !ok {
		return err
	}
	after := max(framework.PollInterval, coderd.RetryAfter(err))
	return ensure.Waits(coderv1alpha1.ReasonControlPlaneUnavailable, after, "%s", err)
}

// current returns an error unless the pass has read the test as it is now, so that an outdated pass changes nothing.
func (p *pass) current(ctx context.Context) error {
	now := &coderv1alpha1.CoderTemplateTest{}
	err := p.kit.Live.Get(ctx, client.ObjectKeyFromObject(p.test), now)
	if err == nil && (now.UID != p.test.UID || now.ResourceVersion != p.test.ResourceVersion) {
		err = apierrors.NewConflict(coderv1alpha1.GroupVersion.WithResource("codertemplatetests").GroupResource(), p.test.Name,
			errors.New("it was changed since it was read"))
	}
	return err
}

// workspaceName returns the name of the workspace of a test, with at most 32 characters, which is Coder's limit.
func workspaceName(uid types.UID) string {
	id, err := uuid.Parse(string(uid))
	if err != nil {
		id = uuid.NewSHA1(uuid.NameSpaceOID, []byte(uid))
	}
	return fmt.Sprintf("test-%x", id[:13])
}

// longestNote is the maximum length of an Event's note in bytes.
const longestNote = 1024

// write writes the status if it changed. It fails if the object was changed since it was read.
func (p *pass) write(ctx context.Context) error {
	p.test.Status.ObservedGeneration = p.test.Generation
	if equality.Semantic.DeepEqual(p.read.Status, p.test.Status) {
		return nil
	}
	if err := p.kit.Client.Status().Patch(ctx, p.test, framework.LockedPatch(p.read)); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	p.read = p.test.DeepCopy()
	return nil
}

// set sets a condition. The message may contain texts of Coder.
func (p *pass) set(c metav1.Condition) {
	c.Message = framework.Redact(c.Message)
	c.ObservedGeneration, c.LastTransitionTime = p.test.Generation, metav1.Time{Time: p.now}
	meta.SetStatusCondition(&p.test.Status.Conditions, c)
}

// waiting sets the conditions of a test that has no result yet.
func (p *pass) waiting(stop *ensure.Stop) {
	p.test.Status.Phase = coderv1alpha1.TemplateTestPending
	if p.test.Status.StartTime != nil {
		p.test.Status.Phase = coderv1alpha1.TemplateTestRunning
		p.set(framework.ConditionFalse(coderv1alpha1.ConditionWorkspaceDeleted, coderv1alpha1.ReasonWorkspaceNeeded, "the test runs"))
	}
	p.set(framework.ConditionFalse(coderv1alpha1.ConditionReady, stop.Reason, stop.Message))
	p.set(framework.ConditionTrue(coderv1alpha1.ConditionReconciling, stop.Reason, stop.Message))
	p.set(framework.ConditionFalse(coderv1alpha1.ConditionFinished, stop.Reason, stop.Message))
}

// finish sets the result. A nil failure is success.
func (p *pass) finish(failure *ensure.Stop) {
	status := &p.test.Status
	status.CompletionTime = &metav1.Time{Time: p.now}
	meta.RemoveStatusCondition(&status.Conditions, coderv1alpha1.ConditionReconciling)
	if failure == nil {
		status.Phase = coderv1alpha1.TemplateTestSucceeded
		const message = "all checks passed"
		p.set(framework.ConditionTrue(coderv1alpha1.ConditionReady, coderv1alpha1.ReasonTestSucceeded, message))
		p.set(framework.ConditionTrue(coderv1alpha1.ConditionFinished, coderv1alpha1.ReasonTestSucceeded, message))
		return
	}
	status.Phase, status.FailedCheck = coderv1alpha1.TemplateTestFailed, p.check
	p.set(framework.ConditionFalse(coderv1alpha1.ConditionReady, failure.Reason, failure.Message))
	p.set(framework.ConditionTrue(coderv1alpha1.ConditionStalled, failure.Reason, failure.Message))
	p.set(framework.ConditionTrue(coderv1alpha1.ConditionFinished, failure.Reason, failure.Message))
	if status.StartTime == nil || p.first && status.WorkspaceID == "" {
		p.deleted(coderv1alpha1.ReasonWorkspaceNeverCreated, "Coder created no workspace for the test")
	}
}

// reasonOf returns the reason of a condition, or an empty string if there is none.
func reasonOf(test *coderv1alpha1.CoderTemplateTest, conditionType string) string {
	return ptr.Deref(meta.FindStatusCondition(test.Status.Conditions, conditionType), metav1.Condition{}).Reason
}

// deleted records that there is no workspace.
func (p *pass) deleted(reason, message string) {
	p.set(framework.ConditionTrue(coderv1alpha1.ConditionWorkspaceDeleted, reason, message))
}

func (p *pass) event(kind, reason, note string) {
	p.kit.Recorder.Eventf(p.test, nil, kind, reason, "Test", "%s", redaction.Truncate(framework.Redact(note), longestNote))
}
