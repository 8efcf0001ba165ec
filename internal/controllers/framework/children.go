package framework

import (
	"context"
	"errors"
	"fmt"

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
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply"
)

// Steps returns the other shared steps, from reading the references of the pods to waiting until
// the pods are ready. The steps in needs complete the Workload. They must succeed before the
// references of the pods are read, and so before the Deployment is applied.
func (t *Toolkit) Steps(p *Pass, needs ...string) []Step {
	return []Step{
		NewStep(StepReferences, p, t.ReadReferences, append([]string{StepFinalizer}, needs...)...),
		NewStep(StepWorkspaces, p, t.ApplyWorkspaceAccess, StepFinalizer),
		NewStep(StepServiceAccount, p, t.applyServiceAccount, StepFinalizer),
		NewStep(StepDeployment, p, t.applyDeployment, StepReferences),
		NewStep(StepService, p, t.applyService, StepFinalizer),
		NewStep(StepDisruptionBudget, p, applyBuilt(t, resources.PodDisruptionBudget), StepFinalizer),
		NewStep(StepNetworkPolicy, p, applyBuilt(t, resources.NetworkPolicy), StepFinalizer),
		NewStep(StepMetricsService, p, applyBuilt(t, resources.MetricsService), StepFinalizer),
		NewStep(StepServiceMonitor, p, t.applyServiceMonitor, StepFinalizer),
		NewStep(StepExposure, p, t.applyExposure, StepFinalizer),
		NewStep(StepPrune, p, t.Prune, StepFinalizer),
		NewStep(StepRollout, p, t.WatchRollout, StepDeployment),
	}
}

func (t *Toolkit) applyServiceAccount(ctx context.Context, p *Pass) error {
	if account := resources.ServiceAccount(p.Workload); account != nil {
		return p.failed(t.apply(ctx, p, account))
	}
	// A ServiceAccount that the operator created stays, and is adopted if the spec asks for it again.
	handOver := map[string]string{coderv1alpha1.AnnotationAdopt: p.adoptValue()}
	return t.detachAll(ctx, p, t.Client, &corev1.ServiceAccount{}, handOver, client.MatchingLabels(p.Workload.Labels))
}

func (t *Toolkit) applyDeployment(ctx context.Context, p *Pass) error {
	d, err := resources.Deployment(p.Workload)
	if err != nil {
		message := Redact(err.Error())
		p.Complain(coderv1alpha1.ReasonInvalidSpec, message)
		return ensure.Fails(coderv1alpha1.ReasonInvalidSpec, 0, "%s", message)
	}
	// The apply fails if the Deployment is not the one from which KeepReplicas was decided.
	d.SetResourceVersion(p.seen)
	found, err := t.apply(ctx, p, d)
	// The API server rejects the numbers of a rolling update with Recreate, and an apply cannot remove those that
	// another client owns too, such as Helm, which created the Deployment.
	if found != nil && found.Reason == coderv1alpha1.ReasonInvalidSpec && p.Current != nil &&
		p.Current.Spec.Strategy.RollingUpdate != nil && d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		changed := p.Current.DeepCopy()
		changed.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		if err := t.Client.Patch(ctx, changed, LockedPatch(p.Current), client.FieldOwner(fieldOwner)); err != nil {
			return Settled(fmt.Errorf("changing the strategy of Deployment %q: %w", d.Name, err))
		}
		return ensure.Waits(coderv1alpha1.ReasonReconciling, ConflictInterval, "the strategy of Deployment %q has changed", d.Name)
	}
	err = p.failed(found, err)
	p.DeploymentForeign = isNotOwned(err)
	if err == nil {
		p.Deployment = d
	}
	return err
}

func (t *Toolkit) applyService(ctx context.Context, p *Pass) error {
	service := resources.Service(p.Workload)
	if service == nil {
		return nil
	}
	err := p.failed(t.apply(ctx, p, service))
	p.ServiceForeign = isNotOwned(err)
	return err
}

// applyBuilt returns the work of a step that applies the child which a builder returns, if any.
func applyBuilt[T interface {
	client.Object
	comparable
}](t *Toolkit, build func(resources.Workload) T) func(context.Context, *Pass) error {
	return func(ctx context.Context, p *Pass) error {
		var none T
		if desired := build(p.Workload); desired != none {
			return p.failed(t.apply(ctx, p, desired))
		}
		return nil
	}
}

func (t *Toolkit) applyServiceMonitor(ctx context.Context, p *Pass) (err error) {
	monitor := resources.ServiceMonitor(p.Workload)
	if monitor == nil {
		return nil
	}
	if p.Monitoring = t.kindMissing(p, monitor, ServiceMonitorKind(), "spec.metrics.serviceMonitor", "the Prometheus Operator"); p.Monitoring != nil {
		return nil
	}
	p.Monitoring, err = t.apply(ctx, p, monitor)
	return err
}

// applyExposure applies the Ingress or the HTTPRoute.
func (t *Toolkit) applyExposure(ctx context.Context, p *Pass) (err error) {
	if ingress := resources.Ingress(p.Workload); ingress != nil {
		p.Exposure, err = t.apply(ctx, p, ingress)
		return err
	}
	route := resources.HTTPRoute(p.Workload)
	if route == nil {
		return nil
	}
	const software = "the custom resource definitions of the Gateway API"
	if p.Exposure = t.kindMissing(p, route, HTTPRouteKind(), "spec.expose.gateway", software); p.Exposure != nil {
		return nil
	}
	if p.Exposure, err = t.apply(ctx, p, route); err == nil {
		p.Exposure = refusedRoute(route)
	}
	return err
}

// kindMissing returns a problem if the cluster does not serve the kind of an object that a field asks
// for. The cluster may serve it before StepPrune runs, so it also keeps StepPrune from deleting the
// object.
func (t *Toolkit) kindMissing(p *Pass, desired client.Object, kind schema.GroupVersionKind, field, software string) *Problem {
	p.wanted[t.childName(desired)] = true
	if t.Optional.Has(kind) {
		return nil
	}
	return &Problem{coderv1alpha1.ReasonKindMissing, fmt.Sprintf("the cluster does not serve %s %s, which %s needs; install %s, "+
		"which the operator detects without a restart, or remove the field", kind.GroupVersion(), kind.Kind, field, software)}
}

// apply applies an object in the owner's namespace, and keeps StepPrune from deleting it. It returns
// the problem to report for a failure, and the error with which the step ends. Afterwards desired
// holds the object as the API server returned it.
func (t *Toolkit) apply(ctx context.Context, p *Pass, desired client.Object) (*Problem, error) {
	p.wanted[t.childName(desired)] = true
	if _, err := t.Applier.Apply(ctx, t.controlledBy(p), desired); err != nil {
		return applyTrouble(err)
	}
	return nil, nil
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
	return []client.Object{
		&corev1.ServiceAccount{}, &appsv1.Deployment{}, &corev1.Service{}, &policyv1.PodDisruptionBudget{},
		&networkingv1.NetworkPolicy{}, &networkingv1.Ingress{},
	}
}

// OptionalChildren returns an empty object of each kind of child that a cluster may not serve.
func OptionalChildren() map[schema.GroupVersionKind]client.Object {
	return map[schema.GroupVersionKind]client.Object{
		ServiceMonitorKind(): &monitoringv1.ServiceMonitor{}, HTTPRouteKind(): &gatewayv1.HTTPRoute{},
	}
}

func (t *Toolkit) controlledBy(p *Pass) apply.Claim {
	// An owner that is being deleted or does not exist adopts nothing.
	confirm := func(ctx context.Context) error {
		// The scheme has all kinds.
		kind, _ := apiutil.GVKForObject(p.Object, t.Client.Scheme())
		live := &metav1.PartialObjectMetadata{}
		live.SetGroupVersionKind(kind)
		err := t.Live.Get(ctx, client.ObjectKeyFromObject(p.Object), live)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading %s %q before it adopts: %w", kind.Kind, p.Object.GetName(), err)
		}
		if err != nil || live.UID != p.Object.GetUID() || !live.DeletionTimestamp.IsZero() {
			return apply.ErrOwnerDeleted
		}
		return nil
	}
	return apply.Adopting(apply.ControlledBy(p.Object, t.Client.Scheme()), coderv1alpha1.AnnotationAdopt, p.adoptValue(), confirm)
}

// adoptValue returns the value of AnnotationAdopt with which the object adopts another one.
func (p *Pass) adoptValue() string { return p.Kind.Name + "/" + p.Object.GetName() }

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

// LookForAdopted reads the workload's Deployment and sets Current, Workload.Live, and Workload.Adopted if
// the Deployment was handed over by an earlier owner. The pods of such a Deployment have other
// labels than the operator's. Every step that selects pods needs them, so this step runs before
// those.
func (t *Toolkit) LookForAdopted(ctx context.Context, p *Pass) error {
	var d *appsv1.Deployment
	claim := t.controlledBy(p)
	// The cache may not contain a Deployment that was just handed over.
	for _, reader := range []client.Reader{t.Client, t.Live} {
		found := &appsv1.Deployment{}
		err := reader.Get(ctx, client.ObjectKey{Namespace: p.Workload.Namespace, Name: p.Workload.Name}, found)
		if client.IgnoreNotFound(err) != nil {
			err = fmt.Errorf("reading Deployment %q: %w", p.Workload.Name, err)
			p.Complain(coderv1alpha1.ReasonApplyFailed, Redact(err.Error()))
			return err
		}
		if err == nil && claim.Holds(found) {
			d = found
			break
		}
	}
	if d == nil {
		return nil
	}
	// Services and policies can select by label values only. With an empty selector they would
	// select every pod of the namespace.
	if s := d.Spec.Selector; s != nil && (len(s.MatchLabels) == 0 || len(s.MatchExpressions) > 0) {
		return p.failed(waitingProblem(coderv1alpha1.ReasonNotOwned, fmt.Sprintf(
			"Deployment %q cannot be taken over, because its selector is not made of matchLabels alone; delete one of the two, "+
				"or remove the annotation %s", d.Name, coderv1alpha1.AnnotationAdopt)))
	}
	p.Current, p.Workload.Live = d, d.Spec.Template.DeepCopy()
	p.Workload.Adopted = resources.AdoptedFrom(p.Workload, d)
	return nil
}

// OwnDeployment returns the workload's Deployment that a reader has, or nil if there is none or
// another owner controls it.
func (p *Pass) OwnDeployment(ctx context.Context, reader client.Reader) (*appsv1.Deployment, error) {
	d := &appsv1.Deployment{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: p.Workload.Namespace, Name: p.Workload.Name}, d)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Deployment %q: %w", p.Workload.Name, err)
	case !metav1.IsControlledBy(d, p.Object):
		return nil, nil
	}
	return d, nil
}
