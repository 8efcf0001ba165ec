package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply"
	"github.com/coder-k8s/coder-k8s/internal/kube/conditions"
	"github.com/coder-k8s/coder-k8s/internal/kube/steps"
)

// Finish ends a pass: it writes the status that set puts into the object, if it
// differs, and says when to look again: when a step asked for it, or after recheck,
// 0 being never.
func (t *Toolkit) Finish(ctx context.Context, p *Pass, set func() *coderv1alpha1.WorkloadStatus, recheck time.Duration) (ctrl.Result, error) {
	for name, need := range p.Outcome.Skipped {
		log.FromContext(ctx).V(1).Info("Skipped a step", "step", name, "needs", need)
	}
	if p.Released {
		return ctrl.Result{}, p.Outcome.Err
	}
	after := p.Outcome.RequeueAfter
	err := t.writeStatus(ctx, p, set)
	switch {
	case apierrors.IsConflict(err), errors.Is(err, errBehind):
		after, err = steps.Sooner(after, ConflictInterval), nil
	case apierrors.IsNotFound(err):
		err = nil
	}
	if err = errors.Join(p.Outcome.Err, err); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: steps.Sooner(after, recheck)}, nil
}

// writeStatus writes the status if it is not what it was, and then tells of what
// changed. The write fails where the object was written since it was read, so a
// cache that is behind neither undoes a newer status nor tells twice. Where there is
// nothing to write it fails, too, if the cache is known to be behind.
func (t *Toolkit) writeStatus(ctx context.Context, p *Pass, set func() *coderv1alpha1.WorkloadStatus) error {
	base, ok := p.Object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("bug: %T is not an object", p.Object)
	}
	next := set()
	ready := conditions.Find(next.Conditions, coderv1alpha1.ConditionReady)
	t.count(p, ready)
	if equality.Semantic.DeepEqual(base, p.Object) {
		if t.versions.behind(p) {
			return errBehind
		}
		t.versions.note(p)
		return nil
	}
	told := *next.DeepCopy()
	if err := t.Client.Status().Patch(ctx, p.Object, LockedPatch(base)); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	t.versions.note(p)
	if ready != nil {
		log.FromContext(ctx).Info("Wrote the status", "ready", ready.Status, "reason", ready.Reason)
	}
	t.tellChanges(p, p.Previous.Conditions, told.Conditions)
	return nil
}

// count makes metrics of how the pass ended.
func (t *Toolkit) count(p *Pass, ready *metav1.Condition) {
	reason, isReady := "", false
	if ready != nil {
		reason, isReady = ready.Reason, ready.Status == metav1.ConditionTrue
	}
	t.Metrics.Reconciled(p.Kind.Name, reason)
	t.Metrics.SetReady(p.Kind.Name, p.Object.GetNamespace(), p.Object.GetName(), isReady)
	if !isReady {
		return
	}
	if took, known := t.starts.end(p); known {
		t.Metrics.BecameReady(p.Kind.Name, took)
	}
}

// Gone drops what is remembered and counted of an object that does not exist any
// more.
func (t *Toolkit) Gone(kind Kind, key client.ObjectKey) {
	t.Metrics.Forget(kind.Name, key.Namespace, key.Name)
	t.versions.forget(kind.Name, key)
}

// Settled makes a wait of errors that time alone mends and nobody needs to read.
func Settled(err error) error {
	switch {
	case apierrors.IsConflict(err), errors.Is(err, apply.ErrOwnerDeleted):
		return &steps.Waiting{Reason: coderv1alpha1.ReasonWaiting, Message: err.Error(), After: ConflictInterval}
	case errors.Is(err, apply.ErrTerminating):
		return &steps.Waiting{Reason: coderv1alpha1.ReasonWaiting, Message: err.Error(), After: terminatingInterval}
	}
	return err
}

// LockedPatch fails where somebody wrote the object since it was read, so that a
// cache that is behind cannot undo that.
func LockedPatch(base client.Object) client.Patch {
	return client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
}
