package apiserver

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
)

// TestADeposedReplicaWritesNoState covers a replica whose Lease expires while it reads the state that
// it replaces.
func TestADeposedReplicaWritesNoState(t *testing.T) {
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		mirrorStates: "CoderMirrorStateList",
	})
	held := true
	s := &states{client: client, held: func() bool { return held }}
	status := syncstatus.Status{ControlPlane: types.NamespacedName{Namespace: "coder", Name: "coder"}, State: syncstatus.Ready}
	if err := s.put(t.Context(), status); err != nil {
		t.Fatal(err)
	}
	client.PrependReactor("get", "*", func(kubetesting.Action) (bool, runtime.Object, error) {
		held = false
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
