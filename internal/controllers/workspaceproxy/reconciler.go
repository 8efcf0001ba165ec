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
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workspaceproxy/registration"
	"github.com/coder-k8s/coder-k8s/internal/kube/steps"
)

// Registrar is the part of registration.Manager that the controller uses.
type Registrar interface {
	Ensure(ctx context.Context, req registration.Request) (registration.Result, error)
	Remove(ctx context.Context, req registration.Request) (registration.Result, error)
}

// Reconciler reconciles CoderWorkspaceProxies. Use New to create one.
type Reconciler struct {
	kit       *workload.Toolkit
	registrar Registrar
}

// Names of the steps in addition to those of package workload.
const (
	stepControlPlane = "control plane"
	stepRegistration = "registration"
	stepPods         = "pods"
)

func kind() workload.Kind {
	return workload.Kind{Name: "CoderWorkspaceProxy", Noun: "workspace proxy", Finalizer: coderv1alpha1.FinalizerWorkspaceProxy}
}

// scope is the state of one reconciliation of one workspace proxy: the object itself and the
// results of the steps. The status is computed only from the scope.
type scope struct {
	workload.Pass
	proxy *coderv1alpha1.CoderWorkspaceProxy
	// inputs contains the values that the builders need in addition to the spec.
	inputs resources.WorkspaceProxyInputs
	// controlPlane is the control plane of the spec, or nil if there is none.
	controlPlane *coderv1alpha1.CoderControlPlane
	// registration is the result of the registration, or nil if it is unknown.
	registration *registration.Result
	// waits describes what a deletion waits for.
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
	s := &scope{proxy: proxy, inputs: resources.WorkspaceProxyInputs{
		ClusterDomain: r.kit.ClusterDomain, OperatorNamespace: r.kit.OperatorNamespace, PodIPv6: r.kit.PodIPv6,
	}}
	s.Pass = r.kit.NewPass(kind(), proxy, &proxy.Status.WorkloadStatus, resources.WorkspaceProxy(proxy, s.inputs))
	s.Hooks.MissingReference, s.Hooks.Explain = s.missingToken, s.cannotRegister
	s.Outcome = steps.Run(ctx, s, r.stepsFor(s))
	return r.kit.Finish(ctx, &s.Pass, func() *coderv1alpha1.WorkloadStatus {
		proxy.Status = statusOf(s)
		return &proxy.Status.WorkloadStatus
	}, s.recheck())
}

// recheck returns when to reconcile a working proxy again.
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
