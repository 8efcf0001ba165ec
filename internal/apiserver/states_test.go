package apiserver

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

func statesClient() *dynamicfake.FakeDynamicClient {
	return dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		mirrorStates: "CoderMirrorStateList",
	})
}

// fakeReplica is the Lease and the objects of a replica.
type fakeReplica struct{ holds, objects bool }

func (f *fakeReplica) leads() bool                      { return f.holds }
func (f *fakeReplica) held() bool                       { return f.holds }
func (f *fakeReplica) has(types.NamespacedName) bool    { return f.objects }
func (f *fakeReplica) caughtUp(_ context.Context) error { return nil }

// TestADeposedReplicaWritesNoState covers a replica whose Lease expires while it reads the state that
// it replaces.
func TestADeposedReplicaWritesNoState(t *testing.T) {
	client := statesClient()
	own := &fakeReplica{holds: true}
	s := &states{client: client, lease: own}
	status := syncstatus.Status{ControlPlane: types.NamespacedName{Namespace: "coder", Name: "coder"}, State: syncstatus.Ready}
	if err := s.put(t.Context(), status); err != nil {
		t.Fatal(err)
	}
	client.PrependReactor("get", "*", func(kubetesting.Action) (bool, runtime.Object, error) {
		own.holds = false
		return false, nil, nil
	})
	status.State = syncstatus.Stale
	if err := s.put(t.Context(), status); !errors.Is(err, errNotHeld) {
		t.Errorf("without the Lease: %v", err)
	}
	object, err := client.Resource(mirrorStates).Namespace("coder").Get(t.Context(), "coder", metav1.GetOptions{})
	if err != nil || at(object, "spec", "state") != "Ready" {
		t.Errorf("%v, %v", object, err)
	}
}

// TestTheStateOfAnEarlierControlPlane covers a control plane that was replaced by another one of the same
// name. Its state stays until its objects are removed, so that each replica that mirrors removes them.
func TestTheStateOfAnEarlierControlPlane(t *testing.T) {
	ctx, client := t.Context(), statesClient()
	name := types.NamespacedName{Namespace: "coder", Name: "coder"}
	members, board, own := &provider{}, &syncstatus.Board{}, &fakeReplica{holds: true, objects: true}
	members.introduce(connections.Member{ControlPlane: name, UID: "new", Named: true})
	s := newStates(board, client, members, own, own, time.Now())
	if err := s.put(ctx, syncstatus.Status{ControlPlane: name, UID: "old", State: syncstatus.Ready, Seen: true}); err != nil {
		t.Fatal(err)
	}
	s.informer.Informer()
	s.factory.Start(ctx.Done())
	s.factory.WaitForCacheSync(ctx.Done())

	if err := s.takeOver(ctx); err != nil {
		t.Fatal(err)
	}
	if all, _ := board.All(); len(all) != 1 || all[0].UID != "old" || all[0].State != syncstatus.Syncing || all[0].Seen {
		t.Errorf("the board has %+v", all)
	}

	// The mirror removes the objects of the earlier one, before it starts with the new one.
	board.Replace(nil)
	write := func(wantLeft bool) {
		t.Helper()
		if left, err := s.write(ctx, map[types.NamespacedName]syncstatus.Status{}); left != wantLeft || err != nil {
			t.Errorf("left is %t, %v", left, err)
		}
	}
	write(true)
	states := client.Resource(mirrorStates).Namespace(name.Namespace)
	object, err := states.Get(ctx, name.Name, metav1.GetOptions{})
	if err != nil || at(object, "spec", "controlPlaneUID") != "old" || at(object, "spec", "state") != "Syncing" {
		t.Errorf("%v, %v", object, err)
	}
	own.objects = false
	write(false)
	if object, err := states.Get(ctx, name.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("%v, %v", object, err)
	}
}

// TestATakeoverWithOutdatedCaches covers a replica that becomes the one that mirrors before its caches have a control plane
// that was created again, and whose objects another replica has read already. The mirror must not remove them.
func TestATakeoverWithOutdatedCaches(t *testing.T) {
	ctx, client := t.Context(), statesClient()
	client.PrependWatchReactor("*", func(kubetesting.Action) (bool, watch.Interface, error) { return true, watch.NewFake(), nil })
	name := types.NamespacedName{Namespace: "coder", Name: "coder"}
	members, board := &provider{}, &syncstatus.Board{}
	own := &fakeReplica{holds: true, objects: true}
	s := newStates(board, client, members, own, own, time.Now())
	put := func(uid types.UID) {
		t.Helper()
		if err := s.put(ctx, syncstatus.Status{ControlPlane: name, UID: uid, State: syncstatus.Ready, Seen: true}); err != nil {
			t.Fatal(err)
		}
	}
	put("old")
	s.informer.Informer()
	s.factory.Start(ctx.Done())
	s.factory.WaitForCacheSync(ctx.Done())
	put("new")
	planes := client.Resource(controlPlanes).Namespace(name.Namespace)
	live := &unstructured.Unstructured{Object: map[string]any{"apiVersion": controlPlanes.GroupVersion().String(), "kind": "CoderControlPlane"}}
	live.SetName(name.Name)
	live.SetUID("new")
	if _, err := planes.Create(ctx, live, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	want := func(uid types.UID, state syncstatus.State) {
		t.Helper()
		if err := s.takeOver(ctx); err != nil {
			t.Fatal(err)
		}
		if all, _ := board.All(); len(all) != 1 || all[0].UID != uid || all[0].State != state {
			t.Errorf("the board has %+v, want UID %s and state %s", all, uid, state)
		}
	}
	members.introduce(connections.Member{ControlPlane: name, UID: "old", Named: true})
	if err := s.takeOver(ctx); err == nil {
		t.Error("it took over while the cache has the earlier control plane")
	}
	members.introduce(connections.Member{ControlPlane: name, UID: "new", Named: true})
	want("new", syncstatus.Ready)
	members.introduce()
	if err := s.takeOver(ctx); err == nil {
		t.Error("it took over while the cache does not have the control plane")
	}
	members.unwatched = name.Namespace
	if err := s.takeOver(ctx); err != nil {
		t.Errorf("the namespace is not watched any more: %v", err)
	}
	members.unwatched = ""
	live.Object["spec"] = map[string]any{"operatorAccess": map[string]any{"disabled": true}}
	if _, err := planes.Update(ctx, live, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.takeOver(ctx); err != nil {
		t.Errorf("the control plane is not served any more: %v", err)
	}
	// It is created again once more.
	delete(live.Object, "spec")
	live.SetUID("newest")
	if _, err := planes.Update(ctx, live, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	members.introduce(connections.Member{ControlPlane: name, UID: "newest", Named: true})
	want("new", syncstatus.Syncing)
}
