package framework

import (
	"context"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// cacheShows makes the cache return the given objects until catchUp is called. Writes and uncached
// reads are not affected.
func (f *fixture) cacheShows(old ...client.Object) (catchUp func()) {
	behind := interceptor.NewClient(f.Cluster, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if err := c.Get(ctx, key, obj, opts...); err != nil {
				return err
			}
			for _, shown := range old {
				if reflect.TypeOf(shown) == reflect.TypeOf(obj) && client.ObjectKeyFromObject(shown) == key {
					reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(shown.DeepCopyObject()).Elem())
				}
			}
			return nil
		},
	})
	f.kit.Client, f.kit.Applier.Client = behind, behind
	return func() { f.kit.Client, f.kit.Applier.Client = f.Cluster, f.Cluster }
}

// TestAStatusThatOnlyTheCacheHasIsNotTheEnd covers a rollout that ended before the cache contained
// its beginning. The pass after the rollout reads the status from before the rollout, and computes
// an equal status. No watch reports the status that is written later, so that pass must request
// another one.
func TestAStatusThatOnlyTheCacheHasIsNotTheEnd(t *testing.T) {
	f := newFixture(t, newControlPlane())
	f.Settle()
	f.PodsReady(1)
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
	before := f.Object()

	f.PodsReady(0)
	f.Reconcile()
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, coderv1alpha1.ReasonProgressing)
	f.PodsReady(1)
	catchUp := f.cacheShows(before)
	for range 2 {
		if result := f.Reconcile(); result.RequeueAfter <= 0 || result.RequeueAfter > ConflictInterval {
			t.Fatalf("the pass looks again after %v, want %v: the cache is behind the status that was written last",
				result.RequeueAfter, ConflictInterval)
		}
	}
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, coderv1alpha1.ReasonProgressing)

	catchUp()
	if result := f.Reconcile(); result.RequeueAfter != RestInterval {
		t.Errorf("a pass that sees everything looks again after %v, want %v", result.RequeueAfter, RestInterval)
	}
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
}
