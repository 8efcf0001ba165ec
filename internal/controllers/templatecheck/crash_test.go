package templatecheck

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// TestCrashEverywhere kills the process at each single write to the cluster or to Coder, once before and once after the server has
// executed it, and continues with a new process. There is never a second workspace, and none is left.
func TestCrashEverywhere(t *testing.T) {
	for _, deletes := range []bool{false, true} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("deleted %t, lost %t", deletes, lost), func(t *testing.T) {
				kubetest.EachStep(t, 5, func(at int) bool { return crashAt(t, at, lost, deletes) })
			})
		}
	}
}

func crashAt(t *testing.T, at int, lost, deletes bool) (struck bool) {
	t.Helper()
	f := newFixture(t)
	f.Fault.Set(at, lost)
	for range 8 {
		_, err := f.Try()
		if f.Fault.Dead() {
			break
		}
		f.Must(err)
		f.world()
	}
	struck = f.Fault.Dead()
	f.restart()
	if deletes && struck {
		f.Remove(f.Object())
		if !f.Gone() {
			f.Clock.SetTime(f.Object().DeletionTimestamp.Time)
		}
		for range 60 {
			if f.Gone() {
				break
			}
			f.runs(1)
			f.Forward(pollInterval)
		}
		if !f.Gone() || f.Events.Count("Warning") != 0 {
			t.Fatalf("after a crash at write %d: gone %t, Events %q", at, f.Gone(), f.Events.All())
		}
	} else if test := f.finishes(); test.Status.Phase != coderv1alpha1.TemplateTestSucceeded {
		t.Fatalf("after a crash at write %d: %+v", at, test.Status)
	}
	if all := f.workspaces(); len(all) != 0 {
		t.Fatalf("after a crash at write %d, %d workspaces are left", at, len(all))
	}
	if n := f.coder.Requests()["POST /api/v2/users/{user}/workspaces"]; n > 2 {
		t.Fatalf("after a crash at write %d, %d requests for a workspace", at, n)
	}
	return struck
}

// TestLostAnswer checks that a workspace whose creation got no answer is found, and that there is no second one.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.coder.Fail(coderdtest.Fault{Method: "POST", PathPrefix: "/api/v2/users/", Status: 502, Processed: true, Times: 1})
	f.runs(1)
	if reason := f.reason(); reason != coderv1alpha1.ReasonConfirmingCreate {
		t.Errorf("the reason is %s", reason)
	}
	if test := f.finishes(); test.Status.Phase != coderv1alpha1.TemplateTestSucceeded {
		t.Errorf("%+v", test.Status)
	}
	if n := f.coder.Requests()["POST /api/v2/users/{user}/workspaces"]; n != 1 {
		t.Errorf("%d requests for a workspace", n)
	}
}

// TestPausedReplica checks that a controller with an outdated object requests no workspace.
func TestPausedReplica(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.coder.Fail(coderdtest.Fault{Method: "POST", PathPrefix: "/api/v2/users/", Status: 502, Times: 1})
	f.runs(1)
	old := f.Object()
	// Another replica completes the test.
	f.finishes()
	paused := &pass{Reconciler: f.r, test: old, read: old.DeepCopy(), now: f.Clock.Now()}
	f.Must(paused.connect(t.Context()))
	before := f.coder.Requests()["POST /api/v2/users/{user}/workspaces"]
	if err := paused.create(t.Context()); err == nil {
		t.Error("no error")
	}
	if now := f.coder.Requests()["POST /api/v2/users/{user}/workspaces"]; now != before || len(f.workspaces()) != 0 {
		t.Errorf("%d requests for a workspace, before %d", now, before)
	}
}

// TestOwnerChangesBeforeASecondRequest checks that the owner is checked again before the workspace is requested again.
func TestOwnerChangesBeforeASecondRequest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.coder.Fail(coderdtest.Fault{Method: "POST", PathPrefix: "/api/v2/users/", Status: 502, Times: 1})
	f.runs(1)
	f.coder.EditUser(tester, "", false, "auditor")
	f.runs(1)
	if reason := f.reason(); reason != coderv1alpha1.ReasonOwnerNotEligible || len(f.workspaces()) != 0 {
		t.Errorf("the reason is %s with %d workspaces", reason, len(f.workspaces()))
	}
}

func TestWorkspaceName(t *testing.T) {
	for uid, want := range map[types.UID]string{
		testUID: "test-0b5e1c8a7f3e4b0e9c553f2a8a", "anything": "test-" + workspaceName("anything")[5:],
	} {
		if got := workspaceName(uid); got != want || len(got) != 31 {
			t.Errorf("%s: %q, want %q", uid, got, want)
		}
	}
}
