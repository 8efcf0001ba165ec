package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// TestOneLeader runs two replicas: both serve, one reconciles, and the other
// takes over immediately when the first receives SIGTERM.
func TestOneLeader(t *testing.T) {
	names, proxy := startCoders(t)
	first := startProcess(t, proxy)
	first.ready(t)
	polltest.Eventually(t, "the first replica leads", func(context.Context) error { return leads(first) })
	second := startProcess(t, proxy)
	second.ready(t)
	serve(t, second)
	if err := leads(second); err == nil {
		t.Fatal("both replicas reconcile")
	}
	ns := namespace(t)
	controlPlaneReady(t, names, ns, "coder")

	const lease = "coder-k8s-controller.coder.com"
	holder := read(t, &coordinationv1.Lease{}, operatorNamespace, lease).Spec.HolderIdentity
	start := time.Now()
	if code := first.terminate(t); code != 0 {
		t.Errorf("the exit code after SIGTERM is %d, not 0:\n%s", code, first.logs)
	}
	t.Logf("ended %.1f s after SIGTERM", time.Since(start).Seconds())
	// The Lease is released, so nothing waits until it expires (15 s).
	if now := read(t, &coordinationv1.Lease{}, operatorNamespace, lease).Spec.HolderIdentity; ptr.Equal(now, holder) {
		t.Errorf("the lease is still held by %s, which has ended", *holder)
	}
	polltest.Eventually(t, "the second replica leads", func(context.Context) error { return leads(second) })
	other := namespace(t)
	controlPlaneReady(t, names, other, "coder")
	if code := second.terminate(t); code != 0 {
		t.Errorf("the exit code after SIGTERM is %d, not 0:\n%s", code, second.logs)
	}
}

// leads returns an error unless a replica runs the controllers.
func leads(p *process) error {
	if !strings.Contains(p.logs.String(), "Starting workers") {
		return fmt.Errorf("it has not started its workers")
	}
	return nil
}

// TestFailingComponentEndsTheProcess checks that the process exits with the
// component's error and exit code 1.
func TestFailingComponentEndsTheProcess(t *testing.T) {
	_, proxy := startCoders(t)
	p := startProcess(t, proxy, "--mcp-bind-address=192.0.2.1:1", "--leader-elect=false")
	select {
	case <-p.ended:
	case <-polltest.Context(t).Done():
		t.Fatalf("the program still runs:\n%s", p.logs)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("the exit code is %d, not 1", code)
	}
	if logs := p.logs.String(); !strings.Contains(logs, "mcp") || !strings.Contains(logs, "192.0.2.1:1") {
		t.Errorf("the log does not say which component failed and where:\n%s", logs)
	}
}

// TestModes starts each mode: it becomes ready and exits with 0.
func TestModes(t *testing.T) {
	for _, mode := range []string{"controller", "aggregated-apiserver", "mcp-http"} {
		t.Run(mode, func(t *testing.T) {
			_, p := startOperator(t, "--app="+mode)
			if code := p.terminate(t); code != 0 {
				t.Errorf("the exit code is %d:\n%s", code, p.logs)
			}
		})
	}
}

// TestDeletionRevokesTheToken checks that no token of the operator remains valid
// in Coder.
func TestDeletionRevokesTheToken(t *testing.T) {
	names, _ := startOperator(t, "--app=controller", "--leader-elect=false")
	ns := namespace(t)
	coder := controlPlaneReady(t, names, ns, "coder")
	if tokens := coder.TokenNames(operatorUser); len(tokens) != 1 {
		t.Fatalf("the operator has the tokens %v before the deletion, not one", tokens)
	}
	cp := &coderv1alpha1.CoderControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "coder"}}
	if err := environment.client.Delete(t.Context(), cp); err != nil {
		t.Fatal(err)
	}
	polltest.Eventually(t, "the control plane is gone", func(ctx context.Context) error {
		if err := environment.client.Get(ctx, client.ObjectKeyFromObject(cp), cp); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("reading it gives %w", err)
		}
		return nil
	})
	if tokens := coder.TokenNames(operatorUser); len(tokens) != 0 {
		t.Errorf("the operator still has the tokens %v", tokens)
	}
}

// TestRefusedTokenIsRenewed deletes the token in Coder; the operator creates a
// new one.
func TestRefusedTokenIsRenewed(t *testing.T) {
	names, proxy := startCoders(t)
	p := startProcess(t, proxy, "--app=controller", "--leader-elect=false")
	p.ready(t)
	ns := namespace(t)
	coder := controlPlaneReady(t, names, ns, "coder")
	secret := tokenOf(t, ns, "coder")
	if !coder.RevokeToken(secret) {
		t.Fatal("Coder does not know the token in the Secret")
	}
	p.kill()
	// After a restart a process checks the token again, so the test need not
	// wait for the next periodic check.
	p = startProcess(t, proxy, "--app=controller", "--leader-elect=false")
	p.ready(t)
	polltest.Eventually(t, "the token is renewed", func(context.Context) error {
		if tokenOf(t, ns, "coder") == secret {
			return fmt.Errorf("the Secret holds the old token")
		}
		return nil
	})
	waitCondition(t, ns, "coder", coderv1alpha1.ConditionOperatorAccess, metav1.ConditionTrue, "")
}
