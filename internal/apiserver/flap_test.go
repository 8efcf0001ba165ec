package apiserver

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// TestSpecStaysWhileItIsBroughtToCoder watches changes that wait for a build. A read of Coder that
// began before the change was applied there must not revert the spec: tools that compare it would
// see a change.
func TestSpecStaysWhileItIsBroughtToCoder(t *testing.T) {
	f := newFixture(t, coderdtest.WithManualBuilds())
	f.coder.SetLatency(25 * time.Millisecond)
	const many = 8
	for i := range many {
		name := fmt.Sprintf("coder.ada.ws-%d", i)
		if _, err := f.ws().Create(t.Context(), workspaceObject(name, spec()), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.ws().Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec":{"running":false}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := f.ws().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	events := watching(t, f.ws(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	f.coder.FinishBuilds()
	for stopped := map[string]bool{}; len(stopped) < many; {
		obj := next(t, events, nil).Object.(*unstructured.Unstructured)
		if at(obj, "spec", "running") != "false" || at(obj, "metadata", "generation") != "2" {
			t.Errorf("%s has generation %s, running %s, condition Synced %s", obj.GetName(), at(obj, "metadata", "generation"),
				at(obj, "spec", "running"), condition(obj, "Synced"))
		}
		if at(obj, "status", "latestBuild", "transition") == "stop" {
			stopped[obj.GetName()] = true
		}
	}
}
