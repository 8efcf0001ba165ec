package apiserver

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// shiftedClock is the real clock, shifted by a constant.
type shiftedClock struct {
	clock.RealClock
	by time.Duration
}

func (c shiftedClock) Now() time.Time                     { return c.RealClock.Now().Add(c.by) }
func (c shiftedClock) Since(then time.Time) time.Duration { return c.Now().Sub(then) }

// beside returns another replica on the same cluster, with the same control planes. It does not run.
func beside(t *testing.T, s *site, identity string, by time.Duration) *site {
	t.Helper()
	other := newSite(t, s.journal)
	other.kube, other.untyped, other.provider, other.agent = s.kube, s.untyped, s.provider, s.agent
	other.workspaces, other.templates, other.users, other.sources = s.workspaces, s.templates, s.users, s.sources
	other.identity, other.clock = identity, shiftedClock{by: by}
	return other
}

// TestClocksDiffer runs replicas whose clocks differ by ten minutes. Each serves what the other wrote, a watch of
// one shows the writes of the other, a replica takes over from the one that was the leader, and
// nothing is reported as deleted.
func TestClocksDiffer(t *testing.T) {
	for _, by := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		t.Run(by.String(), func(t *testing.T) {
			f := newOwnFixture(t)
			f.addWorkspace(t, "dev")
			other := beside(t, f.site, "other", by)
			other.start(t)
			here, there := f.ws(), other.client.Resource(workspacesGVR).Namespace(f.namespace)
			seen := watching(t, there, metav1.ListOptions{})

			// Each replica in turn writes ten times, and the other must have it at once.
			for i := range 10 {
				writer, reader := here, there
				if i%2 == 1 {
					writer, reader = there, here
				}
				value := fmt.Sprint("round-", i)
				if _, err := writer.Patch(t.Context(), "coder.ada.dev", types.MergePatchType,
					[]byte(`{"metadata":{"annotations":{"round":"`+value+`"}},"spec":{"running":`+fmt.Sprint(i%4 < 2)+`}}`), metav1.PatchOptions{}); err != nil {
					t.Fatalf("round %d: %v", i, err)
				}
				read, err := reader.Get(t.Context(), "coder.ada.dev", metav1.GetOptions{})
				if err != nil || read.GetAnnotations()["round"] != value {
					t.Fatalf("round %d: the other replica returned %v: %v", i, read, err)
				}
			}

			// The other replica takes over the mirror, and learns what is new in Coder.
			if other.server.storage.leader.held() {
				t.Fatal("both replicas are the leader")
			}
			f.stop()
			late := f.coder.AddWorkspace("ada", f.template, "late")
			until(t, there, "coder.ada.late", func(*unstructured.Unstructured) bool { return true })
			polltest.Eventually(t, "the watch shows what Coder has", func() error {
				event := next(t, seen, nil)
				if event.Type == watch.Deleted || event.Type == watch.Error {
					t.Fatalf("the watch shows %s: %v", event.Type, event.Object)
				}
				if object, ok := event.Object.(*unstructured.Unstructured); !ok || object.GetName() != "coder.ada.late" {
					return fmt.Errorf("it shows %v", event.Object)
				}
				return nil
			})

			// And back: what the replica with the other clock has stored does not stop one with the right clock.
			other.stop()
			f.start(t)
			if list, err := f.ws().List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 2 {
				t.Errorf("the list is %v: %v", list, err)
			}
			f.coder.RenameWorkspace(late, "later")
			f.workspace(t, "coder.ada.late", func(ws *unstructured.Unstructured) bool { return at(ws, "status", "workspaceName") == "later" })
		})
	}
}
