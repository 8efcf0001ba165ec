package controlplane

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// lateCache shows the cluster as it was some writes ago.
type lateCache struct {
	f       *fixture
	lag     int
	history []*pastState
}

// pastState contains all objects after one write, and a client that reads them.
type pastState struct {
	objects []client.Object
	client  client.WithWatch
}

// beLate makes the controller's cache stale from now on.
func (f *fixture) beLate(lag int) {
	f.T.Helper()
	f.late = &lateCache{f: f, lag: lag}
	f.late.note()
	f.AfterWrite = f.late.note
}

// note records the current state.
func (l *lateCache) note() {
	state := &pastState{}
	for _, list := range kindsOfPictures() {
		if err := l.f.Cluster.List(l.f.T.Context(), list); err != nil {
			l.f.T.Fatal(err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			state.objects = append(state.objects, item.DeepCopyObject().(client.Object))
			return nil
		})
		if err != nil {
			l.f.T.Fatal(err)
		}
	}
	l.history = append(l.history, state)
}

// view returns the cluster as the cache shows it.
func (l *lateCache) view() client.WithWatch {
	state := l.history[max(0, len(l.history)-1-l.lag)]
	if state.client == nil {
		state.client = l.f.NewCluster().WithObjects(state.objects...).Build()
	}
	return state.client
}

// TestStaleReads makes the cache stale by some writes during several passes, and then lets it catch
// up. Nothing is done twice, nothing fails, and the result is that of an undisturbed run.
func TestStaleReads(t *testing.T) {
	kubetest.SkipWithRace(t)
	t.Parallel()
	all := scenarios()
	for _, name := range []string{"create everything", "change everything", "access disabled", "token Secret deleted", "another minor version", "delete everything"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := all[name]
			undisturbed := s.play(t, 0)
			want := undisturbed.picture(undisturbed.licenses)
			for _, lag := range []int{1, 2, 5, 1000} {
				f := s.stage(t)
				f.beLate(lag)
				for range 6 {
					result, err := f.Try()
					if err != nil {
						t.Errorf("%d writes behind: %v", lag, err)
					}
					mustNotSpin(t, result)
					if f.Gone() {
						break
					}
					f.world()
				}
				f.late, f.AfterWrite = nil, nil
				if !f.Gone() {
					f.live()
				}
				if diff := cmp.Diff(want, f.picture(f.licenses)); diff != "" {
					t.Errorf("%d writes behind (-undisturbed +late):\n%s", lag, diff)
				}
			}
		})
	}
}
