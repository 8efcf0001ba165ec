package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
)

// Prune deletes the children that the spec no longer asks for. An error does not keep it from the
// others. The Deployment is always asked for, also while its step waits. The steps of all other
// children run whenever this one runs, because they too need StepFinalizer alone.
func (t *Toolkit) Prune(ctx context.Context, p *Pass) error {
	p.wanted[t.childName(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: p.Workload.Name}})] = true
	var ended ending
	for _, kind := range t.childKinds() {
		owned, err := t.owned(ctx, p, t.Client, kind, client.MatchingLabels(p.Workload.Labels))
		ended.add(p.pruned(err))
		for _, obj := range owned {
			if p.wanted[t.childName(obj)] || !obj.GetDeletionTimestamp().IsZero() {
				continue
			}
			if _, account := obj.(*corev1.ServiceAccount); account {
				if used, err := t.usesAccount(ctx, p, obj.GetName()); used || err != nil {
					ended.add(p.pruned(err))
					continue
				}
			}
			ended.add(p.pruned(t.deleteOwn(ctx, obj)))
		}
	}
	return ended.err()
}

func (p *Pass) pruned(err error) error {
	if err == nil {
		return nil
	}
	return p.failed(applyTrouble(err))
}

// ending collects the errors of a step that does several things. An error that must be retried with
// backoff hides a wait, but never the other way round.
type ending struct{ waiting, failed error }

func (e *ending) add(err error) {
	if ensure.Stopped(err) != nil {
		e.waiting = err
		return
	}
	e.failed = errors.Join(e.failed, err)
}

func (e *ending) err() error {
	if e.failed != nil {
		return e.failed
	}
	return e.waiting
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
	kind, _ := apiutil.GVKForObject(obj, t.Client.Scheme())
	return kind.Kind
}

func (t *Toolkit) owned(ctx context.Context, p *Pass, reader client.Reader, kind client.Object, opts ...client.ListOption) ([]client.Object, error) {
	all, err := t.list(ctx, reader, kind, append(opts, client.InNamespace(p.Object.GetNamespace()))...)
	if err != nil {
		return nil, fmt.Errorf("looking for children of the %s: %w", p.Kind.Noun, err)
	}
	return slices.DeleteFunc(all, func(obj client.Object) bool { return !metav1.IsControlledBy(obj, p.Object) }), nil
}

func (t *Toolkit) list(ctx context.Context, reader client.Reader, kind client.Object, opts ...client.ListOption) ([]client.Object, error) {
	gvk, _ := apiutil.GVKForObject(kind, t.Client.Scheme())
	made, err := t.Client.Scheme().New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, fmt.Errorf("bug: %w", err)
	}
	list := made.(client.ObjectList)
	if err := reader.List(ctx, list, opts...); err != nil {
		return nil, fmt.Errorf("listing objects of the kind %s: %w", gvk.Kind, err)
	}
	var all []client.Object
	err = meta.EachListItem(list, func(item runtime.Object) error {
		all = append(all, item.(client.Object))
		return nil
	})
	return all, err
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

// detachAll removes the owner reference from the children of one kind that a reader has, so that they are
// not deleted with the owner, and adds annotations to them.
func (t *Toolkit) detachAll(
	ctx context.Context, p *Pass, reader client.Reader, kind client.Object, annotations map[string]string, opts ...client.ListOption,
) error {
	owned, err := t.owned(ctx, p, reader, kind, opts...)
	if err != nil {
		return err
	}
	for _, child := range owned {
		base := child.DeepCopyObject().(client.Object)
		ensure.Annotate(child, annotations)
		err := controllerutil.RemoveControllerReference(p.Object, child, t.Client.Scheme())
		if err == nil {
			err = client.IgnoreNotFound(t.Client.Patch(ctx, child, LockedPatch(base)))
		}
		if err != nil {
			return Settled(fmt.Errorf("detaching %s %q: %w", t.kindOf(child), child.GetName(), err))
		}
	}
	return nil
}
