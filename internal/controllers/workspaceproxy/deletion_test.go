package workspaceproxy

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

func ctrlRequest(name string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "team", Name: name}}
}

// TestK19DeletionUnregisters covers a fault of the predecessor: it left its record in Coder.
func TestK19DeletionUnregisters(t *testing.T) {
	f := newFixture(t, newProxy())
	f.run()
	f.delete()
	f.reconcile()
	if len(f.coder.Proxies()) != 0 || !f.gone() {
		t.Errorf("left: %+v, object gone: %t", f.coder.Proxies(), f.gone())
	}
	if f.events.count("Normal Unregistered") != 1 || f.events.count("Warning") != 0 {
		t.Errorf("Events: %q", f.events.all())
	}
	f.reconcile()
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
			f.delete()
			deleted := f.proxy().DeletionTimestamp
			for _, passed := range []time.Duration{0, 30 * time.Second, 59 * time.Second} {
				f.clock.SetTime(deleted.Add(passed))
				result := f.reconcile()
				if result.RequeueAfter <= 0 || result.RequeueAfter > 5*time.Second {
					t.Errorf("after %v it looks again after %v", passed, result.RequeueAfter)
				}
				if c := f.mustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, coderv1alpha1.ReasonDeleting); !strings.Contains(c.Message, "registered in Coder") {
					t.Errorf("message %q does not say what the deletion waits for", c.Message)
				}
			}
			f.clock.SetTime(deleted.Add(time.Minute))
			f.reconcile()
			if !f.gone() {
				t.Error("the deletion is blocked for good")
			}
			if f.events.count(`Warning UnregistrationSkipped: the registration "sydney" in Coder at `+controlPlaneURL) != 1 {
				t.Errorf("Events: %q", f.events.all())
			}
		})
	}
}

func TestAControlPlaneThatIsGoneDoesNotHangTheDeletion(t *testing.T) {
	f := newFixture(t, newProxy())
	f.run()
	cp := &coderv1alpha1.CoderControlPlane{}
	f.get("dev", cp)
	f.remove(cp)
	f.delete()
	f.reconcile()
	if !f.gone() || f.events.count("Warning UnregistrationSkipped") != 1 {
		t.Errorf("gone: %t, Events: %q", f.gone(), f.events.all())
	}
}

func TestDeletionBeforeAnythingWasRegisteredIsImmediate(t *testing.T) {
	f := newFixture(t, newProxy(func(p *coderv1alpha1.CoderWorkspaceProxy) { p.Spec.ControlPlaneRef.Name = "none" }))
	f.settle()
	f.delete()
	f.reconcile()
	if !f.gone() || f.events.count("Warning UnregistrationSkipped") != 0 {
		t.Errorf("gone: %t, Events: %q", f.gone(), f.events.all())
	}
}

func TestDeletionOfAnOwnTokenLeavesTheProxy(t *testing.T) {
	f := newFixture(t, newProxy(func(p *coderv1alpha1.CoderWorkspaceProxy) {
		p.Spec.ControlPlaneRef = nil
		p.Spec.PrimaryAccessURL = accessURL
		p.Spec.ProxySessionTokenSecretRef = &coderv1alpha1.TokenSecretReference{Name: "mine"}
	}))
	f.create(f.secret("mine", f.coder.AddProxy("by-hand", "By hand", "/x.png").Token))
	f.run()
	f.delete()
	f.reconcile()
	if !f.gone() || len(f.coder.Proxies()) != 1 {
		t.Errorf("gone: %t, proxies %+v", f.gone(), f.coder.Proxies())
	}
}
