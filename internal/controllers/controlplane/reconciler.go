package controlplane

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/access"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply"
	"github.com/coder-k8s/coder-k8s/internal/kube/steps"
)

const (
	// pollInterval is when to look again at what no watch tells.
	pollInterval = 15 * time.Second
	// restInterval is when to ask a Coder that works whether it still does.
	restInterval = time.Minute
	// conflictInterval lets a cache catch up.
	conflictInterval = time.Second
	// terminatingInterval waits for an object that is being deleted.
	terminatingInterval = 5 * time.Second
)

// Access is what the controller needs of access.Manager.
type Access interface {
	Ensure(ctx context.Context, req access.Request) (access.Result, error)
	Revoke(ctx context.Context, req access.Request) (access.Result, error)
}

// Coder is what the controller itself asks Coder, without a token.
type Coder interface {
	BuildInfo(ctx context.Context) (coderd.BuildInfo, error)
}

// PodLogs reads the last lines of a container's log.
type PodLogs interface {
	Tail(ctx context.Context, request LogRequest) (string, error)
}

// LogRequest names a part of a container's log.
type LogRequest struct {
	Namespace, Pod, Container string
	// Previous reads the log of the container before the last restart.
	Previous bool
	// Since leaves out older lines. 0 means all.
	Since time.Duration
}

// Reconciler makes CoderControlPlanes what their spec says. New makes one.
type Reconciler struct {
	client   client.Client
	live     client.Reader
	applier  *apply.Applier
	recorder events.EventRecorder
	access   Access
	connect  func(url string) (Coder, error)
	logs     PodLogs
	clock    clock.PassiveClock

	clusterDomain string
	concurrency   int

	// prefixes is held while an object name prefix is decided and written, so that
	// two control planes of one namespace cannot both become the first.
	prefixes sync.Mutex
}

// Reconcile runs one pass.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cp := &coderv1alpha1.CoderControlPlane{}
	if err := r.client.Get(ctx, req.NamespacedName, cp); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	s := &scope{cp: cp, now: r.clock.Now()}
	s.inputs.ClusterDomain = r.clusterDomain
	s.outcome = steps.Run(ctx, s, r.stepsFor(s))
	for name, need := range s.outcome.Skipped {
		log.FromContext(ctx).V(1).Info("Skipped a step", "step", name, "needs", need)
	}
	if s.released {
		return ctrl.Result{}, s.outcome.Err
	}
	after := s.outcome.RequeueAfter
	err := r.writeStatus(ctx, s)
	switch {
	case apierrors.IsConflict(err):
		after, err = steps.Sooner(after, conflictInterval), nil
	case apierrors.IsNotFound(err):
		err = nil
	}
	if err = errors.Join(s.outcome.Err, err); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: steps.Sooner(after, s.recheck())}, nil
}

// recheck is when to look again at a control plane that works.
func (s *scope) recheck() time.Duration {
	if s.build == nil {
		return 0
	}
	if s.access == nil {
		return restInterval
	}
	return steps.Sooner(restInterval, s.access.RequeueAfter)
}

// The names of the steps.
const (
	stepName           = "name"
	stepFinalizer      = "finalizer"
	stepInputs         = "inputs"
	stepServiceAccount = "service account"
	stepWorkspaces     = "workspace access"
	stepDeployment     = "deployment"
	stepService        = "service"
	stepRollout        = "rollout"
	stepCoder          = "coder"
	stepAccess         = "operator access"
	stepRevoke         = "revocation"
	stepPrefix         = "object name prefix"
	stepRelease        = "release"
)

type step = steps.Step[*scope]

func (r *Reconciler) stepsFor(s *scope) []step {
	if s.deleting() {
		return []step{
			{Name: stepRevoke, Run: r.revokeOnDeletion},
			{Name: stepWorkspaces, Run: r.removeWorkspaceAccess},
			{Name: stepRelease, Needs: []string{stepRevoke, stepWorkspaces}, Run: r.release},
		}
	}
	list := []step{
		{Name: stepName, Run: checkName},
		{Name: stepFinalizer, Needs: []string{stepName}, Run: r.ensureFinalizer},
		{Name: stepInputs, Needs: []string{stepFinalizer}, Run: r.gatherInputs},
		{Name: stepServiceAccount, Needs: []string{stepFinalizer}, Run: r.applyServiceAccount},
		{Name: stepWorkspaces, Needs: []string{stepFinalizer}, Run: r.applyWorkspaceAccess},
		{Name: stepDeployment, Needs: []string{stepInputs}, Run: r.applyDeployment},
		{Name: stepService, Needs: []string{stepFinalizer}, Run: r.applyService},
		{Name: stepRollout, Needs: []string{stepDeployment}, Run: r.watchRollout},
	}
	if s.accessDisabled() {
		return append(list, step{Name: stepRevoke, Needs: []string{stepService}, Run: r.revokeDisabled})
	}
	return append(list,
		step{Name: stepPrefix, Needs: []string{stepFinalizer}, Run: r.decidePrefix},
		step{Name: stepCoder, Needs: []string{stepDeployment, stepService}, Run: r.askCoder},
		step{Name: stepAccess, Needs: []string{stepCoder}, Run: r.ensureAccess},
	)
}

// settled makes a wait of errors that time alone mends and nobody needs to read.
func settled(err error) error {
	switch {
	case apierrors.IsConflict(err):
		return &steps.Waiting{Reason: coderv1alpha1.ReasonWaiting, Message: err.Error(), After: conflictInterval}
	case errors.Is(err, apply.ErrTerminating):
		return &steps.Waiting{Reason: coderv1alpha1.ReasonWaiting, Message: err.Error(), After: terminatingInterval}
	}
	return err
}
