package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// many are ten control planes of one namespace, one of them with provisioners and a
// workspace proxy.
type many struct {
	coders  []*coderdtest.Server
	objects []client.Object
}

func newMany(t *testing.T, names *coders, ns string) *many {
	t.Helper()
	m := &many{}
	for i := range 10 {
		name := "coder"
		if i > 0 {
			name = fmt.Sprintf("coder-%d", i)
		}
		m.coders = append(m.coders, licensedCoder(t, names, ns, name))
		m.objects = append(m.objects, controlPlane(ns, name, withDatabase))
	}
	m.objects = append(m.objects, provisioner(ns, "runner"), workspaceProxy(ns, "near"))
	return m
}

// begun returns the number of control planes in whose Coder the operator has a
// token.
func (m *many) begun() int {
	n := 0
	for _, coder := range m.coders {
		n += min(len(coder.TokenNames(operatorUser)), 1)
	}
	return n
}

// once checks that every object is in Coder exactly once.
func (m *many) once(t *testing.T) {
	t.Helper()
	for i, coder := range m.coders {
		if users := coder.Usernames(); len(users) != 2 || !slices.Contains(users, operatorUser) {
			t.Errorf("Coder %d has the users %v, not the operator and the first admin", i, users)
		}
		if tokens := coder.TokenNames(operatorUser); len(tokens) != 1 {
			t.Errorf("Coder %d has the tokens %v of the operator, not one", i, tokens)
		}
	}
	if keys := m.coders[0].ProvisionerKeys("coder"); len(keys) != 1 {
		t.Errorf("there are %d provisioner keys, not one", len(keys))
	}
	if proxies := m.coders[0].Proxies(); len(proxies) != 1 {
		t.Errorf("there are %d workspace proxies, not one", len(proxies))
	}
}

// madeOnce fails the test if an object of a namespace was created more than once.
func madeOnce(t *testing.T, from int64, ns string, by ...*process) {
	t.Helper()
	made := map[string]int{}
	for _, p := range by {
		for _, r := range changesBy(t, from, p) {
			if r.ObjectRef.Namespace == ns && r.ResponseStatus.Code == 201 {
				made[r.ObjectRef.Resource+"/"+r.ObjectRef.Name]++
			}
			if r.ObjectRef.Namespace == ns && r.Verb == "delete" {
				t.Errorf("the operator deleted something: %s", r)
			}
		}
	}
	if len(made) < 10 {
		t.Errorf("the audit log contains only %v", made)
	}
	for object, times := range made {
		// The first admin's and the operator's own names are in the request's body.
		if times > 1 && object != "secrets/" {
			t.Errorf("%s was made %d times", object, times)
		}
	}
}

// TestKilledLeader: the replica that leads is killed in the middle of its work. The
// other takes over when the Lease has expired, not before, and completes the
// unfinished work; nothing is created twice.
func TestKilledLeader(t *testing.T) {
	t.Parallel()
	names, proxy := startCoders(t)
	ns := namespace(t)
	from := auditSize(t)
	args := []string{"--app=controller", "--leader-elect=true", "--watch-namespaces=" + ns}
	first := startProcess(t, proxy, args...)
	polltest.Eventually(t, "the first replica leads", func(context.Context) error { return leads(first) })
	second := startProcess(t, proxy, args...)
	second.ready(t)
	pods := startStandIn(t, ns)
	// So the replica cannot be finished when the test kills it.
	pods.hold("coder-9", true)
	m := newMany(t, names, ns)
	create(t, m.objects...)
	polltest.Eventually(t, "the first replica is in the middle", func(context.Context) error {
		if n := m.begun(); n < 3 {
			return fmt.Errorf("it has begun with %d", n)
		}
		return nil
	})
	first.kill()
	killed := time.Now()
	if len(changesBy(t, from, second)) > 0 || leads(second) == nil {
		t.Error("the second replica works while the first leads")
	}
	ready := 0
	for _, object := range m.objects {
		if err := environment.client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		if statusOf(t, object).Phase == coderv1alpha1.PhaseReady {
			ready++
		}
	}
	pods.hold("coder-9", false)
	polltest.Eventually(t, "the second replica leads", func(context.Context) error { return leads(second) })
	taken := time.Since(killed)
	isReady(t, m.objects...)
	t.Logf("%d of %d were Ready at the kill; taken over after %.1f s, all Ready after %.1f s",
		ready, len(m.objects), taken.Seconds(), time.Since(killed).Seconds())
	if ready == len(m.objects) {
		t.Error("the first replica had done everything: the test shows nothing")
	}
	m.once(t)
	madeOnce(t, from, ns, first, second)
	if len(changesBy(t, from, first)) == 0 || len(changesBy(t, from, second)) == 0 {
		t.Error("only one replica worked: the test shows nothing")
	}
	third := startProcess(t, proxy, args...)
	third.ready(t)
	pausedLeader(t, second, third)
}

// pausedLeader pauses the replica that leads until the other leads. When it continues, it ends as
// soon as it sees that, and changes nothing.
func pausedLeader(t *testing.T, paused, other *process) {
	t.Helper()
	paused.signal(t, syscall.SIGSTOP)
	polltest.Eventually(t, "the other replica leads", func(context.Context) error { return leads(other) })
	from, continued := auditSize(t), time.Now()
	paused.signal(t, syscall.SIGCONT)
	select {
	case <-paused.ended:
	case <-polltest.Context(t).Done():
		t.Fatal("the paused replica does not end")
	}
	t.Logf("ended %.1f s after SIGCONT", time.Since(continued).Seconds())
	if code := paused.cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("the exit code is %d, not 1", code)
	}
	const lease = "coder-k8s-controller.coder.com"
	holder := *read(t, &coordinationv1.Lease{}, operatorNamespace, lease).Spec.HolderIdentity
	if want := fmt.Sprintf("leader election lost: Lease %s/%s is now held by %q", operatorNamespace, lease, holder); !strings.Contains(paused.logs.String(), want) {
		t.Errorf("the log does not contain %q", want)
	}
	if changes := changesBy(t, from, paused); len(changes) > 0 {
		t.Errorf("the replica changed something after the other had taken over: %v", changes)
	}
}
