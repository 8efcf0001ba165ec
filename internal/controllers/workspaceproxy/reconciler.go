package workspaceproxy

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workspaceproxy/registration"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workspaceproxy/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/steps"
)

// Registrar is what the controller needs of registration.Manager.
type Registrar interface {
	Ensure(ctx context.Context, req registration.Request) (registration.Result, error)
	Remove(ctx context.Context, req registration.Request) (registration.Result, error)
}

// Reconciler makes CoderWorkspaceProxies what their spec says. New makes one.
type Reconciler struct {
	kit       *workload.Toolkit
	registrar Registrar
}

// The names of the steps that are not shared.
const (
	stepControlPlane = "control plane"
	stepRegistration = "registration"
	stepPods         = "pods"
)

func kind() workload.Kind {
	return workload.Kind{Name: "CoderWorkspaceProxy", Noun: "workspace proxy", Finalizer: coderv1alpha1.FinalizerWorkspaceProxy}
}

// scope is one workspace proxy during one pass: what it is, and what the steps
// saw. The status is computed from it alone.
type scope struct {
	workload.Pass
	proxy *coderv1alpha1.CoderWorkspaceProxy
	// inputs is what the builders need besides the spec.
	inputs resources.Inputs
	// controlPlane is that of the spec, or nil where there is none.
	controlPlane *coderv1alpha1.CoderControlPlane
	// registration is what came of it, or nil where that is not known.
	registration *registration.Result
	// waits is what a deletion waits for.
	waits string
}

// Reconcile runs one pass.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	proxy := &coderv1alpha1.CoderWorkspaceProxy{}
	if err := r.kit.Client.Get(ctx, req.NamespacedName, proxy); err != nil {
		if apierrors.IsNotFound(err) {
			r.kit.Gone(kind(), req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	s := &scope{proxy: proxy, inputs: resources.Inputs{
		ClusterDomain: r.kit.ClusterDomain, OperatorNamespace: r.kit.OperatorNamespace, PodIPv6: r.kit.PodIPv6,
	}}
	s.Pass = r.kit.NewPass(kind(), proxy, &proxy.Status.WorkloadStatus, resources.Workload(proxy, s.inputs))
	s.Hooks.MissingReference, s.Hooks.Explain = s.missingToken, s.cannotRegister
	s.Outcome = steps.Run(ctx, s, r.stepsFor(s))
	return r.kit.Finish(ctx, &s.Pass, func() *coderv1alpha1.WorkloadStatus {
		proxy.Status = statusOf(s)
		return &proxy.Status.WorkloadStatus
	}, s.recheck())
}

// recheck is when to look again at a proxy that works.
func (s *scope) recheck() time.Duration {
	if s.registration == nil {
		return 0
	}
	return s.registration.RequeueAfter
}

type step = steps.Step[*scope]

func (r *Reconciler) stepsFor(s *scope) []step {
	if s.Deleting() {
		return []step{
			{Name: stepRegistration, Run: r.unregister},
			workload.Step[*scope](workload.StepRelease, r.kit.Release, stepRegistration),
		}
	}
	return slices.Concat(
		workload.Begin[*scope](r.kit),
		[]step{
			{Name: stepControlPlane, Needs: []string{workload.StepFinalizer}, Run: r.findControlPlane},
			{Name: stepRegistration, Needs: []string{stepControlPlane}, Run: r.register},
			{Name: stepPods, Needs: []string{stepControlPlane}, Run: r.describePods},
		},
		workload.Steps[*scope](r.kit, workload.Needs{References: []string{stepPods}}),
	)
}
