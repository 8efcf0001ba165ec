package workspaceproxy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workspaceproxy/registration"
)

// Reconciler reconciles CoderWorkspaceProxies. Use New to create one.
type Reconciler struct {
	kit       *framework.Toolkit
	registrar *registration.Manager
}

// Names of the steps that others need, in addition to those of package framework.
const (
	stepControlPlane = "control plane"
	stepRegistration = "registration"
	stepPods         = "pods"
)

func kind() framework.Kind {
	return framework.Kind{Name: "CoderWorkspaceProxy", Noun: "workspace proxy", Finalizer: coderv1alpha1.FinalizerWorkspaceProxy}
}

// scope is the state of one reconciliation of one workspace proxy: the object itself and the
// results of the steps. The status is computed only from the scope.
type scope struct {
	framework.Pass
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
	if found, err := r.kit.Read(ctx, kind(), req, proxy); !found {
		return ctrl.Result{}, err
	}
	s := &scope{proxy: proxy, inputs: resources.WorkspaceProxyInputs{Cluster: r.kit.Cluster}}
	s.Pass = r.kit.NewPass(kind(), proxy, &proxy.Status.WorkloadStatus, resources.WorkspaceProxy(proxy, s.inputs))
	s.Hooks.MissingReference, s.Hooks.Explain = s.missingToken, s.cannotRegister
	s.Run(ctx, r.stepsFor(s))
	recheck := time.Duration(0)
	if s.registration != nil {
		recheck = s.registration.RequeueAfter
	}
	return r.kit.Finish(ctx, &s.Pass, func() *coderv1alpha1.WorkloadStatus {
		proxy.Status = statusOf(s)
		return &proxy.Status.WorkloadStatus
	}, recheck)
}

func (r *Reconciler) stepsFor(s *scope) []framework.Step {
	if s.Deleting() {
		return []framework.Step{
			framework.NewStep(framework.StepOrphaned, &s.Pass, r.kit.FindOrphaned),
			framework.NewStep(stepRegistration, s, r.unregister, framework.StepOrphaned),
			framework.NewStep(framework.StepRelease, &s.Pass, r.kit.Release, stepRegistration),
		}
	}
	return slices.Concat(
		r.kit.Begin(&s.Pass),
		[]framework.Step{
			framework.NewStep("running pods", s, r.followRunning, framework.StepAdoption),
			framework.NewStep(stepControlPlane, s, r.findControlPlane, framework.StepFinalizer),
			framework.NewStep(stepRegistration, s, r.register, stepControlPlane),
			framework.NewStep(stepPods, s, r.describePods, stepControlPlane),
		},
		r.kit.Steps(&s.Pass, stepPods),
	)
}

// New creates the controller. Use SetupWithManager to register it. refused is called when Coder
// rejects the operator's token of a control plane, so that the control plane is reconciled
// immediately. It must return quickly.
func New(kit *framework.Toolkit, refused func(controlPlane types.NamespacedName)) *Reconciler {
	return &Reconciler{kit: kit, registrar: &registration.Manager{
		Client: kit.Uncached, Reader: kit.Client, Clock: kit.Clock, NewClient: kit.NewClient, Refused: refused,
	}}
}

// SetupWithManager registers the controller and its watches. It runs on the leader only.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr manager.Manager) error {
	return r.kit.SetUp(ctx, mgr, framework.Registration{
		Kind: kind(), Name: "coderworkspaceproxy", For: &coderv1alpha1.CoderWorkspaceProxy{}, References: referencesOf,
		ControlPlane: controlPlaneOf, ControlPlaneChanges: []predicate.Predicate{predicate.Funcs{UpdateFunc: affectsProxies}}, Reconciler: r,
	})
}

func controlPlaneOf(obj client.Object) *coderv1alpha1.ControlPlaneReference {
	return obj.(*coderv1alpha1.CoderWorkspaceProxy).Spec.ControlPlaneRef
}

// referencesOf returns the Secrets and ConfigMaps on which a proxy depends: those of its pods, its
// session token, and the token with which it is registered.
func referencesOf(obj client.Object) []resources.Reference {
	proxy := obj.(*coderv1alpha1.CoderWorkspaceProxy)
	token := coderv1alpha1.TokenSecretReference{Name: resources.ProxyTokenSecretName(proxy)}
	if ref := proxy.Spec.ProxySessionTokenSecretRef; ref != nil {
		token = *ref
	}
	all := framework.ReferencesOf(resources.WorkspaceProxy(proxy, resources.WorkspaceProxyInputs{Token: token}))
	if ref := proxy.Spec.Bootstrap.CredentialsSecretRef; ref != nil {
		all = append(all, resources.Reference{
			Kind: resources.KindSecret, Name: ref.Name, Keys: []string{cmp.Or(ref.Key, coderv1alpha1.SecretKeyToken)},
		})
	}
	return all
}

func (r *Reconciler) register(ctx context.Context, s *scope) error {
	d, err := s.OwnDeployment(ctx, r.kit.Client)
	if err != nil {
		return err
	}
	// If all pods are ready, Coder accepts their token.
	healthy := d != nil && framework.RolledOut(d) && d.Status.AvailableReplicas >= ptr.Deref(d.Spec.Replicas, 1)
	result, err := r.registrar.Ensure(ctx, registration.Request{Proxy: s.proxy.DeepCopy(), AccessURL: s.accessURL(), Healthy: healthy})
	r.kit.TellAll(&s.Pass, result.Events)
	if err != nil {
		return framework.Settled(err)
	}
	s.registration = &result
	if result.State == registration.Unverified {
		return nil
	}
	if err := result.NotReady(result.RequeueAfter); err != nil || result.TokenVersion == "" {
		return err
	}
	return r.kit.WaitForCache(ctx, s.proxy.Namespace, result.TokenRef.Name, result.TokenVersion)
}

// unregister removes the registration while the finalizer keeps the proxy. If Coder does not answer
// or rejects the request, the deletion is delayed until framework.DeletionLimit. After that, an Event reports what
// remains in Coder. If the children must be kept, their pods keep the registration.
func (r *Reconciler) unregister(ctx context.Context, s *scope) error {
	if r.kit.LeavesChildren(&s.Pass) {
		r.registrar.Forget(s.proxy.UID)
		if name := s.proxy.Status.ProxyName; name != "" {
			s.Stays = append(s.Stays, fmt.Sprintf("the registration %q in Coder", name))
		}
		return nil
	}
	left := s.DeletionTimeLeft(framework.DeletionLimit)
	ctx, cancel := context.WithTimeout(ctx, framework.DeletionTry)
	defer cancel()
	result, err := r.registrar.Remove(ctx, registration.Request{Proxy: s.proxy.DeepCopy()})
	r.kit.TellAll(&s.Pass, result.Events)
	switch {
	case err != nil && left > 0:
		s.waits = framework.UntilDeleted("its registration in Coder is known", err.Error())
		return framework.WaitForDeletion(left, err.Error())
	case err != nil:
		result.LeftBehind = cmp.Or(result.LeftBehind, "the record of the registration could not be read: "+err.Error())
	case result.State != ensure.Ready && left > 0:
		s.waits = framework.UntilDeleted("its registration is removed from Coder", result.Message)
		return framework.WaitForDeletion(left, result.Message)
	}
	if result.LeftBehind != "" {
		r.kit.Tell(&s.Pass, corev1.EventTypeWarning, coderv1alpha1.ReasonUnregistrationSkipped, framework.Redact(result.LeftBehind))
	}
	return nil
}
