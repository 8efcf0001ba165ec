package workspaceproxy

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// TestK19DeletionUnregisters covers a fault of the predecessor: it left its record in Coder.
func TestK19DeletionUnregisters(t *testing.T) {
	f := newFixture(t, newProxy())
	f.run()
	f.Delete()
	f.Reconcile()
	if len(f.coder.Proxies()) != 0 || !f.Gone() {
		t.Errorf("left: %+v, object gone: %t", f.coder.Proxies(), f.Gone())
	}
	if f.Events.Count("Normal Unregistered") != 1 || f.Events.Count("Warning") != 0 {
		t.Errorf("Events: %q", f.Events.All())
	}
	f.Reconcile()
}

// With --cascade=orphan the pods keep running, so Coder must accept them.
func TestDeletionThatOrphansLeavesTheRegistration(t *testing.T) {
	f := newFixture(t, newProxy())
	f.run()
	f.Edit(func(p *coderv1alpha1.CoderWorkspaceProxy) {
		p.Finalizers = append(p.Finalizers, metav1.FinalizerOrphanDependents)
	})
	f.Delete()
	f.Reconcile()
	f.Edit(func(p *coderv1alpha1.CoderWorkspaceProxy) { p.Finalizers = nil })
	if proxies := f.coder.Proxies(); len(proxies) != 1 || !f.Gone() || len(f.Deployment().OwnerReferences) > 0 {
		t.Errorf("registered: %+v, object gone: %t", proxies, f.Gone())
	}
	if f.Events.Count(`Normal Orphaned: the pods keep running, and what they need stays; delete it when no pod uses it: the registration "sydney" in Coder`) != 1 {
		t.Errorf("Events: %q", f.Events.All())
	}
}

// The garbage collector finished while no leader ran. Only the Deployment shows that it was orphaned.
func TestDeletionThatOrphansWhileNoLeaderRunsLeavesTheRegistration(t *testing.T) {
	f := newFixture(t, newProxy())
	f.run()
	d := f.Deployment()
	d.OwnerReferences, d.CreationTimestamp = nil, f.Object().CreationTimestamp
	f.Update(d)
	f.Delete()
	f.restart()
	f.Reconcile()
	if proxies := f.coder.Proxies(); len(proxies) != 1 || !f.Gone() || f.Events.Count("Normal Orphaned") != 1 {
		t.Errorf("registered: %+v, object gone: %t, Events: %q", proxies, f.Gone(), f.Events.All())
	}
}

func TestAnUnreachableCoderDelaysDeletionForAMinute(t *testing.T) {
	for name, fault := range map[string]coderdtest.Fault{
		"no answer": {DropConnection: true}, "500": {Status: 500}, "401": {Status: 401}, "garbage": {HTML: true, Status: 200},
		"license": {Status: 403, Message: "Workspace Proxy is a Premium feature. Contact sales!"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, newProxy())
			f.run()
			f.coder.Fail(fault)
			f.Delete()
			deleted := f.Object().DeletionTimestamp
			for _, passed := range []time.Duration{0, 30 * time.Second, 59 * time.Second} {
				f.Clock.SetTime(deleted.Add(passed))
				result := f.Reconcile()
				if result.RequeueAfter <= 0 || result.RequeueAfter > 5*time.Second {
					t.Errorf("after %v it looks again after %v", passed, result.RequeueAfter)
				}
				if c := f.mustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, coderv1alpha1.ReasonDeleting); !strings.Contains(c.Message, "until its registration") {
					t.Errorf("message %q does not say what the deletion waits for", c.Message)
				}
			}
			f.Clock.SetTime(deleted.Add(time.Minute))
			f.Reconcile()
			if !f.Gone() {
				t.Error("the deletion is blocked for good")
			}
			if f.Events.Count(`Warning UnregistrationSkipped: the registration "sydney" in Coder at `+controlPlaneURL) != 1 {
				t.Errorf("Events: %q", f.Events.All())
			}
		})
	}
}

func TestAControlPlaneThatIsGoneDoesNotHangTheDeletion(t *testing.T) {
	f := newFixture(t, newProxy())
	f.run()
	cp := &coderv1alpha1.CoderControlPlane{}
	f.Get("dev", cp)
	f.Remove(cp)
	f.Delete()
	f.Reconcile()
	if !f.Gone() || f.Events.Count("Warning UnregistrationSkipped") != 1 {
		t.Errorf("gone: %t, Events: %q", f.Gone(), f.Events.All())
	}
}

func TestDeletionBeforeAnythingWasRegisteredIsImmediate(t *testing.T) {
	f := newFixture(t, newProxy(func(p *coderv1alpha1.CoderWorkspaceProxy) { p.Spec.ControlPlaneRef.Name = "none" }))
	f.settle()
	f.Delete()
	f.Reconcile()
	if !f.Gone() || f.Events.Count("Warning UnregistrationSkipped") != 0 {
		t.Errorf("gone: %t, Events: %q", f.Gone(), f.Events.All())
	}
}

func TestDeletionOfAnOwnTokenLeavesTheProxy(t *testing.T) {
	f := newFixture(t, newProxy(func(p *coderv1alpha1.CoderWorkspaceProxy) {
		p.Spec.ControlPlaneRef = nil
		p.Spec.PrimaryAccessURL = accessURL
		p.Spec.ProxySessionTokenSecretRef = &coderv1alpha1.TokenSecretReference{Name: "mine"}
	}))
	f.Create(secretOf("mine", f.coder.AddProxy("by-hand", "By hand", "/x.png").Token))
	f.run()
	f.Delete()
	f.Reconcile()
	if !f.Gone() || len(f.coder.Proxies()) != 1 {
		t.Errorf("gone: %t, proxies %+v", f.Gone(), f.coder.Proxies())
	}
}
