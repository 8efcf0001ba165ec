package framework

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply"
)

// Finish ends a pass. It calls set, which fills the object's status, and writes the status if it
// changed. The result requests the next pass at the time that a step asked for, or after recheck if
// that is sooner. A recheck of 0 means never.
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
		after, err = ensure.Sooner(after, ConflictInterval), nil
	case apierrors.IsNotFound(err):
		err = nil
	}
	if err = errors.Join(p.Outcome.Err, err); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: ensure.Sooner(after, recheck)}, nil
}

// writeStatus writes the status if it changed, and then records Events. The write fails if the
// object was changed since it was read. So a stale cache cannot overwrite a newer status or repeat
// Events. If there is nothing to write, writeStatus returns errBehind when the cache is known to be
// stale.
func (t *Toolkit) writeStatus(ctx context.Context, p *Pass, set func() *coderv1alpha1.WorkloadStatus) error {
	base := p.Object.DeepCopyObject().(client.Object)
	next := set()
	ready := meta.FindStatusCondition(next.Conditions, coderv1alpha1.ConditionReady)
	reason, isReady := "", false
	if ready != nil {
		reason, isReady = ready.Reason, ready.Status == metav1.ConditionTrue
	}
	t.Metrics.Reconciled(p.Kind.Name, reason)
	t.Metrics.SetReady(p.Kind.Name, p.Object.GetNamespace(), p.Object.GetName(), isReady)
	if isReady {
		if took, known := t.starts.end(p); known {
			t.Metrics.BecameReady(p.Kind.Name, took)
		}
	}
	changed := !equality.Semantic.DeepEqual(base, p.Object)
	if !changed && t.Behind(p) {
		return errBehind
	}
	written := *next.DeepCopy()
	if changed {
		if err := t.Client.Status().Patch(ctx, p.Object, LockedPatch(base)); err != nil {
			return fmt.Errorf("writing the status: %w", err)
		}
	}
	version := recorded{uid: p.Object.GetUID(), resource: p.Object.GetResourceVersion()}
	t.versions.Store(versionKey(p.Kind, client.ObjectKeyFromObject(p.Object)), version)
	if !changed {
		return nil
	}
	if ready != nil {
		log.FromContext(ctx).Info("Wrote the status", "ready", ready.Status, "reason", ready.Reason)
	}
	t.tellChanges(p, p.Previous.Conditions, written.Conditions)
	return nil
}

// Read reads the object of a pass, and reports whether it exists.
func (t *Toolkit) Read(ctx context.Context, kind Kind, req ctrl.Request, obj client.Object) (bool, error) {
	err := t.Client.Get(ctx, req.NamespacedName, obj)
	if apierrors.IsNotFound(err) {
		t.Gone(kind, req.NamespacedName)
	}
	return err == nil, client.IgnoreNotFound(err)
}

// Gone drops the state and the metrics of an object that no longer exists.
func (t *Toolkit) Gone(kind Kind, key client.ObjectKey) {
	t.Metrics.Forget(kind.Name, key.Namespace, key.Name)
	t.versions.Delete(versionKey(kind, key))
}

// Settled converts errors that resolve without any action into a wait.
func Settled(err error) error {
	switch {
	case apierrors.IsConflict(err), errors.Is(err, apply.ErrOwnerDeleted):
		return ensure.Waits(coderv1alpha1.ReasonWaiting, ConflictInterval, "%v", err)
	case errors.Is(err, apply.ErrTerminating), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return ensure.Waits(coderv1alpha1.ReasonWaiting, terminatingInterval, "%v", err)
	}
	return err
}

// LockedPatch returns a merge patch that fails if the object was changed since it was read, so that
// a stale cache cannot undo that change.
func LockedPatch(base client.Object) client.Patch {
	return client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
}

// errBehind reports that the pass read an older object than the one that was last written. The
// status of that object may be outdated although it matches the result of the pass.
var errBehind = errors.New("the cache does not have the status that was written last")

// Behind reports whether the pass read an older object than the one that was last written. Versions
// that cannot be compared do not count as older.
func (t *Toolkit) Behind(p *Pass) bool {
	noted, _ := t.versions.Load(versionKey(p.Kind, client.ObjectKeyFromObject(p.Object)))
	known, ok := noted.(recorded)
	if !ok || known.uid != p.Object.GetUID() {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(p.Object.GetResourceVersion(), known.resource)
	return err == nil && order < 0
}

// recorded is a version of an object.
type recorded struct {
	uid      types.UID
	resource string
}

func versionKey(kind Kind, key client.ObjectKey) string { return kind.Name + "/" + key.String() }
