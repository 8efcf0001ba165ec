package workload

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply"
)

// child describes one object that a workload may have in its own namespace.
type child struct {
	// step is the name of the step that applies the object.
	step string
	// kind is an empty object of its kind.
	kind client.Object
	// optional is the name of the kind if a cluster may not serve it. It is served as soon as
	// the custom resource definitions of the software are installed. field is the part of the spec
	// that needs the kind.
	optional        schema.GroupVersionKind
	software, field string
	// build returns the object, or nil if the spec does not ask for it.
	build func(resources.Workload) (client.Object, error)
	// prepare completes the object with state of the pass. It may be nil.
	prepare func(*Pass, client.Object)
	// applied is called with the result of the apply. It may be nil.
	applied func(p *Pass, obj client.Object, err error)
	// problem returns the place for the reason why the object is not applied, if that is reported
	// in a condition of its own. Nil means that it is one of p.Problems.
	problem func(*Pass) **Problem
	// unwanted is called if the spec does not ask for the object. Nil means that only StepPrune
	// deletes it.
	unwanted func(*Toolkit, context.Context, *Pass) error
	// inUse reports whether an object that the spec no longer asks for must not be pruned yet. Nil
	// means never.
	inUse func(*Pass, client.Object) bool
}

// children returns all children of a workload in the order in which they are applied. The steps,
// the pruning, the watches, the indexes, the cache, the conditions and the orphaning follow from
// this list.
func children() []child {
	exposure := func(p *Pass) **Problem { return &p.Exposure }
	return []child{
		{
			step: StepServiceAccount, kind: &corev1.ServiceAccount{}, build: built(resources.ServiceAccount),
			inUse: func(p *Pass, account client.Object) bool {
				return slices.Contains(p.Workload.FormerAccounts, account.GetName())
			},
			// A ServiceAccount that the operator created stays, and is adopted if the spec asks for it again.
			unwanted: func(t *Toolkit, ctx context.Context, p *Pass) error {
				handOver := map[string]string{coderv1alpha1.AnnotationAdopt: p.adoptValue()}
				return t.detachAll(ctx, p, t.Client, &corev1.ServiceAccount{}, handOver, client.MatchingLabels(p.Workload.Labels))
			},
		},
		{
			step: StepDeployment, kind: &appsv1.Deployment{}, build: buildDeployment,
			prepare: (*Pass).onlyIfUnchanged, applied: (*Pass).appliedDeployment,
		},
		{
			step: StepService, kind: &corev1.Service{}, build: built(resources.Service),
			applied: func(p *Pass, _ client.Object, err error) { p.ServiceForeign = isNotOwned(err) },
		},
		{step: StepDisruptionBudget, kind: &policyv1.PodDisruptionBudget{}, build: built(resources.PodDisruptionBudget)},
		{step: StepNetworkPolicy, kind: &networkingv1.NetworkPolicy{}, build: built(resources.NetworkPolicy)},
		{step: StepMetricsService, kind: &corev1.Service{}, build: built(resources.MetricsService)},
		{
			step: StepServiceMonitor, kind: &monitoringv1.ServiceMonitor{}, build: built(resources.ServiceMonitor),
			optional: ServiceMonitorKind(), software: "the Prometheus Operator", field: "spec.metrics.serviceMonitor",
			problem: func(p *Pass) **Problem { return &p.Monitoring },
		},
		{step: StepExposure, kind: &networkingv1.Ingress{}, build: built(resources.Ingress), problem: exposure},
		{
			step: StepExposure, kind: &gatewayv1.HTTPRoute{}, build: built(resources.HTTPRoute),
			optional: HTTPRouteKind(), software: "the custom resource definitions of the Gateway API", field: "spec.expose.gateway",
			problem: exposure, applied: (*Pass).appliedRoute,
		},
	}
}

// HTTPRouteKind returns the kind HTTPRoute. A cluster may not serve it.
func HTTPRouteKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: gatewayv1.GroupName, Version: "v1", Kind: "HTTPRoute"}
}

// ServiceMonitorKind returns the kind ServiceMonitor. A cluster may not serve it.
func ServiceMonitorKind() schema.GroupVersionKind {
	return monitoringv1.SchemeGroupVersion.WithKind(monitoringv1.ServiceMonitorsKind)
}

// Children returns an empty object of each kind of child that every cluster serves.
func Children() []client.Object {
	var kinds []client.Object
	for _, c := range children() {
		known := slices.ContainsFunc(kinds, func(kind client.Object) bool { return reflect.TypeOf(kind) == reflect.TypeOf(c.kind) })
		if c.optional.Empty() && !known {
			kinds = append(kinds, c.kind)
		}
	}
	return kinds
}

// OptionalChildren returns an empty object of each kind of child that a cluster may not serve.
func OptionalChildren() map[schema.GroupVersionKind]client.Object {
	kinds := map[schema.GroupVersionKind]client.Object{}
	for _, c := range children() {
		if !c.optional.Empty() {
			kinds[c.optional] = c.kind
		}
	}
	return kinds
}

// built converts a builder of one type. A nil pointer becomes a nil object.
func built[T any, P interface {
	*T
	client.Object
}](build func(resources.Workload) P) func(resources.Workload) (client.Object, error) {
	return func(w resources.Workload) (client.Object, error) {
		if obj := build(w); obj != nil {
			return obj, nil
		}
		return nil, nil
	}
}

func buildDeployment(w resources.Workload) (client.Object, error) {
	d, err := resources.Deployment(w)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func deploymentOf(w resources.Workload) client.Object {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
}

// onlyIfUnchanged makes the apply fail if the Deployment is not the one from which KeepReplicas was
// decided.
func (p *Pass) onlyIfUnchanged(d client.Object) { d.SetResourceVersion(p.seen) }

func (p *Pass) appliedDeployment(obj client.Object, err error) {
	p.DeploymentForeign = isNotOwned(err)
	if d, ok := obj.(*appsv1.Deployment); ok && err == nil {
		p.Deployment = d
	}
}

func (p *Pass) appliedRoute(obj client.Object, err error) {
	if route, ok := obj.(*gatewayv1.HTTPRoute); ok && err == nil {
		p.Exposure = refusedRoute(route)
	}
}

func (t *Toolkit) applyChildren(step string) func(context.Context, *Pass) error {
	return func(ctx context.Context, p *Pass) error {
		for _, c := range children() {
			if c.step != step {
				continue
			}
			if err := t.applyChild(ctx, p, c); err != nil {
				return err
			}
		}
		return nil
	}
}

// applyChild applies one child if the spec asks for it. This is the only place of a pass that
// builds it: StepPrune keeps the names that are recorded here.
func (t *Toolkit) applyChild(ctx context.Context, p *Pass, c child) error {
	desired, err := c.build(p.Workload)
	switch {
	case err != nil:
		message := Redact(err.Error())
		p.Complain(coderv1alpha1.ReasonInvalidSpec, message)
		return ensure.Fails(coderv1alpha1.ReasonInvalidSpec, 0, "%s", message)
	case desired != nil:
		p.wanted[t.childName(desired)] = true
	case c.unwanted != nil:
		return c.unwanted(t, ctx, p)
	default:
		return nil
	}
	if !c.optional.Empty() && !t.Optional.Has(c.optional) {
		*c.problem(p) = &Problem{coderv1alpha1.ReasonKindMissing, fmt.Sprintf("the cluster does not serve %s %s, which %s needs; install %s, "+
			"which the operator detects without a restart, or remove the field", c.optional.GroupVersion(), c.optional.Kind, c.field, c.software)}
		return nil
	}
	if c.prepare != nil {
		c.prepare(p, desired)
	}
	found, ended := t.apply(ctx, p, desired)
	switch {
	case c.problem != nil:
		*c.problem(p) = found
	case found != nil:
		p.Problems = append(p.Problems, *found)
	}
	if c.applied != nil {
		c.applied(p, desired, ended)
	}
	return ended
}

// apply applies an object in the owner's namespace. It returns the problem to report for a failure,
// and the error with which the step ends. Afterwards desired holds the object as the API server
// returned it.
func (t *Toolkit) apply(ctx context.Context, p *Pass, desired client.Object) (*Problem, error) {
	if _, err := t.Applier.Apply(ctx, t.controlledBy(p), desired); err != nil {
		return applyTrouble(err)
	}
	return nil, nil
}

func (t *Toolkit) controlledBy(p *Pass) apply.Claim {
	return apply.Adopting(apply.ControlledBy(p.Object, t.Client.Scheme()),
		coderv1alpha1.AnnotationAdopt, p.adoptValue(),
		func(ctx context.Context) error { return t.confirmOwner(ctx, p.Object) })
}

// adoptValue returns the value of AnnotationAdopt with which the object adopts another one.
func (p *Pass) adoptValue() string { return p.Kind.Name + "/" + p.Object.GetName() }

// confirmOwner returns apply.ErrOwnerDeleted if the API server reports that an owner is being
// deleted or does not exist.
func (t *Toolkit) confirmOwner(ctx context.Context, owner client.Object) error {
	kind, err := apiutil.GVKForObject(owner, t.Client.Scheme())
	if err != nil {
		return fmt.Errorf("bug: %w", err)
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(kind)
	err = t.Live.Get(ctx, client.ObjectKeyFromObject(owner), live)
	switch {
	case apierrors.IsNotFound(err):
		return apply.ErrOwnerDeleted
	case err != nil:
		return fmt.Errorf("reading %s %q before it adopts: %w", kind.Kind, owner.GetName(), err)
	case live.UID != owner.GetUID(), !live.DeletionTimestamp.IsZero():
		return apply.ErrOwnerDeleted
	}
	return nil
}

// applyTrouble returns the problem to report for a failed apply, and the error with which the step
// ends. Steps that conflict with another owner's object are retried after RetryInterval, because no
// watch reports the deletion of that object.
func applyTrouble(err error) (*Problem, error) {
	if ended := Settled(err); ensure.Stopped(ended) != nil {
		return nil, ended
	}
	switch {
	case isNotOwned(err):
		return waitingProblem(coderv1alpha1.ReasonNotOwned, err.Error())
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return waitingProblem(coderv1alpha1.ReasonInvalidSpec, Redact(err.Error()))
	}
	return &Problem{coderv1alpha1.ReasonApplyFailed, Redact(err.Error())}, err
}

func waitingProblem(reason, message string) (*Problem, error) {
	return &Problem{reason, message}, ensure.Waits(reason, RetryInterval, "%s", message)
}

func isNotOwned(err error) bool {
	var refused *apply.NotOwnedError
	stop := ensure.Stopped(err)
	return errors.As(err, &refused) || stop != nil && stop.Reason == coderv1alpha1.ReasonNotOwned
}
