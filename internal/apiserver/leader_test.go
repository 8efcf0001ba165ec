package apiserver

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

// A replica that sees that another one holds the Lease stops mirroring at once, not at the deadline
// of a renewal. It mirrors again when the other has released the Lease.
func TestAnotherReplicaMirrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		var mu sync.Mutex
		taken := false
		client.PrependReactor("update", "leases", func(action kubetesting.Action) (bool, runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			if taken {
				return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), leaseName, nil)
			}
			lease := action.(kubetesting.UpdateAction).GetObject()
			return true, lease, client.Tracker().Update(action.GetResource(), lease, action.GetNamespace())
		})
		become := func(holder string) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			taken = holder != ""
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "coder-system", Name: leaseName}, Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](3600), RenewTime: ptr.To(metav1.NowMicro()),
			}}
			if err := client.Tracker().Update(coordinationv1.SchemeGroupVersion.WithResource("leases"), lease, "coder-system"); err != nil {
				t.Fatal(err)
			}
		}
		mirrors := false
		l := newLeader(client, "coder-system", "own", time.Hour)
		is := func(after time.Duration, want bool) {
			t.Helper()
			<-time.After(after)
			synctest.Wait()
			if mirrors != want || l.held() != want || l.leading.Load() != want {
				t.Fatalf("mirrors %t, holds the Lease %t, leads %t; want %t", mirrors, l.held(), l.leading.Load(), want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- l.Start(ctx, func(ctx context.Context) {
				mirrors = true
				<-ctx.Done()
				mirrors = false
			})
		}()
		is(time.Second, true)
		become("other")
		is(2*time.Second, false)
		is(time.Minute, false)
		become("")
		is(5*time.Second, true)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		is(0, false)
	})
}

// TestLateStart covers an election whose goroutine begins after its Lease was lost and acquired again: it neither mirrors nor ends
// the mirroring of the next election. Otherwise a leader that commits nothing would remain.
func TestLateStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		l := newLeader(fake.NewClientset(), "coder-system", "own", time.Hour)
		run := func(ctx context.Context) {
			runs++
			<-ctx.Done()
		}
		lost, lose := context.WithCancel(t.Context())
		lose()
		now, end := context.WithCancel(t.Context())
		go l.lead(now, run)
		synctest.Wait()
		go l.lead(lost, run)
		synctest.Wait()
		if runs != 1 || !l.leading.Load() {
			t.Errorf("%d runs, leads %t; want one, which goes on", runs, l.leading.Load())
		}
		end()
		synctest.Wait()
		if runs != 1 || l.leading.Load() {
			t.Errorf("after its end: %d runs, leads %t", runs, l.leading.Load())
		}
	})
}
