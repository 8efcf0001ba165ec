package workload

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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

// IndexController is the name of the index of children by the uid of their controller.
const IndexController = "coder.com/controller-uid"

// ControllerOf returns the keys of an object in that index.
func ControllerOf(obj client.Object) []string {
	if owner := metav1.GetControllerOf(obj); owner != nil {
		return []string{string(owner.UID)}
	}
	return nil
}

// Children returns an empty object of each kind of child that every cluster serves.
func Children() []client.Object {
	return []client.Object{
		&appsv1.Deployment{}, &corev1.Service{}, &corev1.ServiceAccount{},
		&policyv1.PodDisruptionBudget{}, &networkingv1.NetworkPolicy{}, &networkingv1.Ingress{},
	}
}

// OptionalChildren returns an empty object of each kind of child that a cluster may not serve.
func OptionalChildren() map[schema.GroupVersionKind]client.Object {
	return map[schema.GroupVersionKind]client.Object{
		HTTPRouteKind(): &gatewayv1.HTTPRoute{}, ServiceMonitorKind(): &monitoringv1.ServiceMonitor{},
	}
}

// ownChildren returns the objects that the workload needs in its own namespace, without Roles and
// RoleBindings. The Deployment has only its name.
func ownChildren(w resources.Workload) []client.Object {
	wanted := []client.Object{&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}}
	if o := resources.Service(w); o != nil {
		wanted = append(wanted, o)
	}
	if o := resources.MetricsService(w); o != nil {
		wanted = append(wanted, o)
	}
	if o := resources.ServiceAccount(w); o != nil {
		wanted = append(wanted, o)
	}
	if o := resources.PodDisruptionBudget(w); o != nil {
		wanted = append(wanted, o)
	}
	if o := resources.NetworkPolicy(w); o != nil {
		wanted = append(wanted, o)
	}
	if o := resources.Ingress(w); o != nil {
		wanted = append(wanted, o)
	}
	if o := resources.HTTPRoute(w); o != nil {
		wanted = append(wanted, o)
	}
	if o := resources.ServiceMonitor(w); o != nil {
		wanted = append(wanted, o)
	}
	return wanted
}

// Prune deletes the children that the spec no longer asks for.
func (t *Toolkit) Prune(ctx context.Context, p *Pass) error {
	wanted := map[string]bool{}
	for _, obj := range ownChildren(p.Workload) {
		wanted[t.childName(obj)] = true
	}
	var failed error
	for _, kind := range t.childKinds() {
		owned, err := t.owned(ctx, p, kind)
		failed = errors.Join(failed, err)
		for _, obj := range owned {
			if wanted[t.childName(obj)] || !obj.GetDeletionTimestamp().IsZero() || p.inUse(obj) {
				continue
			}
			failed = errors.Join(failed, t.deleteOwn(ctx, obj))
		}
	}
	if failed != nil {
		found, ended := applyTrouble(failed)
		if found != nil {
			p.Problems = append(p.Problems, *found)
		}
		return ended
	}
	return nil
}

// inUse reports whether an object is a ServiceAccount that pods of an earlier revision may still
// use.
func (p *Pass) inUse(obj client.Object) bool {
	_, account := obj.(*corev1.ServiceAccount)
	return account && (p.Deployment == nil || !RolledOut(p.Deployment))
}

func (t *Toolkit) childKinds() []client.Object {
	kinds := Children()
	for kind, obj := range OptionalChildren() {
		if t.Optional.Has(kind) {
			kinds = append(kinds, obj)
		}
	}
	return kinds
}

// childName returns a key that is unique among the children of one object.
func (t *Toolkit) childName(obj client.Object) string {
	return t.kindOf(obj) + "/" + obj.GetName()
}

func (t *Toolkit) kindOf(obj runtime.Object) string {
	kind, err := apiutil.GVKForObject(obj, t.Client.Scheme())
	if err != nil {
		return fmt.Sprintf("%T", obj)
	}
	return kind.Kind
}

// owned returns the children of one kind from the cache.
func (t *Toolkit) owned(ctx context.Context, p *Pass, kind client.Object) ([]client.Object, error) {
	list, err := t.listFor(kind)
	if err != nil {
		return nil, err
	}
	if err := t.listOwned(ctx, p, list); err != nil {
		return nil, err
	}
	return controlledIn(list, p.Object)
}

// listFor returns an empty list of a kind.
func (t *Toolkit) listFor(kind client.Object) (client.ObjectList, error) {
	gvk, err := apiutil.GVKForObject(kind, t.Client.Scheme())
	if err != nil {
		return nil, fmt.Errorf("bug: %w", err)
	}
	gvk.Kind += "List"
	made, err := t.Client.Scheme().New(gvk)
	if err != nil {
		return nil, fmt.Errorf("bug: %w", err)
	}
	list, ok := made.(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("bug: %s is not a list", gvk)
	}
	return list, nil
}

// controlledIn returns the objects of a list that have this controller.
func controlledIn(list client.ObjectList, controller client.Object) (all []client.Object, err error) {
	err = meta.EachListItem(list, func(item runtime.Object) error {
		if obj, ok := item.(client.Object); ok && metav1.IsControlledBy(obj, controller) {
			all = append(all, obj)
		}
		return nil
	})
	return all, err
}

func (t *Toolkit) listOwned(ctx context.Context, p *Pass, list client.ObjectList) error {
	err := t.Client.List(ctx, list, client.InNamespace(p.Object.GetNamespace()),
		client.MatchingFields{IndexController: string(p.Object.GetUID())})
	if err != nil {
		return fmt.Errorf("listing what belongs to the %s: %w", p.Kind.Noun, err)
	}
	return nil
}

// deleteOwn deletes a child, unless it was changed since it was read: the change may have given it
// another owner.
func (t *Toolkit) deleteOwn(ctx context.Context, obj client.Object) error {
	err := t.Client.Delete(ctx, obj, client.Preconditions{UID: ptr.To(obj.GetUID()), ResourceVersion: ptr.To(obj.GetResourceVersion())})
	if client.IgnoreNotFound(err) != nil {
		if apierrors.IsConflict(err) {
			return err
		}
		return fmt.Errorf("deleting %s %q, which the spec does not ask for any more: %w", t.kindOf(obj), obj.GetName(), err)
	}
	t.Applier.Forget(obj)
	return nil
}
