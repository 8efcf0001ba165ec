package registration

import (
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure/ensuretest"
)

func TestTheNewRegistrationComesFirst(t *testing.T) {
	w := newWorld(t)
	w.settle()
	old := w.token()
	w.proxy.Spec.ControlPlaneRef.Name = "next"
	theirs := w.other.AddProxy("sydney", "Theirs", "/x.png")
	result := w.pass()
	w.WantState(result.Result, Failed, coderv1alpha1.ReasonNameTaken)
	if result.TokenRef == nil || result.AccessURL != accessURL || w.token() != old || len(w.Coder.Proxies()) != 1 {
		t.Errorf("the old registration is gone before there is a new one: %+v", result)
	}
	w.other.RemoveProxy(theirs.Name)
	result = w.settle()
	w.checkWhole(w.other, "sydney", "sydney", coderd.DefaultProxyIcon)
	w.checkNone(w.Coder.Proxies())
	if result.ProxyID != w.only(w.other).ID.String() {
		t.Errorf("result %+v", result)
	}
}

func TestTheSameCoderByAnotherWayIsTheSameRegistration(t *testing.T) {
	w := newWorld(t)
	w.proxy.Spec.ControlPlaneRef.Name = "next"
	w.settle()
	id, token := w.only(w.other).ID, w.token()
	w.viaBootstrap()
	w.settle()
	w.checkWhole(w.other, "sydney", "sydney", coderd.DefaultProxyIcon)
	if w.only(w.other).ID != id || w.token() != token {
		t.Error("it was registered anew")
	}
	if through := w.Secret(tokenSecret).Annotations[AnnotationThrough]; through != "Secret/owner/token" {
		t.Errorf("it would be removed through %q", through)
	}
}

func TestAFormerCoderThatIsAwayIsTriedForAnHour(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.proxy.Spec.ControlPlaneRef.Name = "next"
	end := w.Coder.Fail(coderdtest.Fault{DropConnection: true})
	result := w.pass()
	w.WantState(result.Result, Ready, coderv1alpha1.ReasonRegistered)
	if result.RequeueAfter != time.Minute || !strings.Contains(result.Message, "not removed yet") {
		t.Errorf("result %+v", result)
	}
	w.Forward(59 * time.Minute)
	if again := w.pass(); again.Message != result.Message || len(again.Events) != 0 {
		t.Errorf("message %q, Events %q", again.Message, ensuretest.Reasons(again.Events))
	}
	w.Forward(time.Minute)
	result = w.pass()
	w.WantState(result.Result, Ready, coderv1alpha1.ReasonRegistered)
	if ensuretest.Reasons(result.Events) != "UnregistrationSkipped" || !strings.Contains(result.Events[0].Message, w.Coder.URL) {
		t.Errorf("Events %+v", result.Events)
	}
	end()
	w.checkWhole(w.other, "sydney", "sydney", coderd.DefaultProxyIcon)
	if again := w.pass(); again.RequeueAfter < 50*time.Minute || len(again.Events) != 0 {
		t.Errorf("it is not at rest: %+v", again)
	}
}

func TestAFormerCoderThatComesBackIsCleaned(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.proxy.Spec.ControlPlaneRef.Name = "next"
	end := w.Coder.Fail(coderdtest.Fault{Status: 503})
	w.pass()
	end()
	w.Forward(time.Minute)
	if got := ensuretest.Reasons(w.pass().Events); got != "Unregistered" {
		t.Errorf("Events %q", got)
	}
	w.checkNone(w.Coder.Proxies())
}

func TestAFormerControlPlaneThatIsGoneIsTold(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.proxy.Spec.ControlPlaneRef.Name = "next"
	cp := &coderv1alpha1.CoderControlPlane{}
	w.Get("dev", cp)
	w.Delete(cp)
	result := w.pass()
	w.WantState(result.Result, Ready, coderv1alpha1.ReasonRegistered)
	if !strings.Contains(ensuretest.Reasons(result.Events), "UnregistrationSkipped") {
		t.Errorf("Events %q", ensuretest.Reasons(result.Events))
	}
	w.checkWhole(w.other, "sydney", "sydney", coderd.DefaultProxyIcon)
}

func TestAnOwnTokenRegistersNothing(t *testing.T) {
	w := newWorld(t)
	w.giveToken()
	w.Coder.ResetRequests()
	result := w.pass()
	w.WantState(result.Result, Ready, coderv1alpha1.ReasonTokenAccepted)
	if result.TokenRef.Name != "mine" || result.ProxyID != "" || !ptr.Deref(result.Registered, false) || w.Coder.Writes() != 0 {
		t.Errorf("result %+v", result)
	}
	if w.HasSecret(tokenSecret) {
		t.Error("a Secret was made")
	}
	w.Asked()
	w.Forward(30 * time.Minute)
	w.pass()
	if n := w.Asked(); n != 0 {
		t.Errorf("%d requests at rest", n)
	}
}

func TestAnOwnTokenReplacesARegistrationOnlyIfCoderTakesIt(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.secret("bad", map[string]string{"token": "00000000-0000-0000-0000-000000000001:" + strings.Repeat("x", 64)})
	w.proxy.Spec.ControlPlaneRef = nil
	for name, reason := range map[string]string{"absent": coderv1alpha1.ReasonTokenSecretMissing, "bad": coderv1alpha1.ReasonTokenRefused} {
		w.proxy.Spec.ProxySessionTokenSecretRef = &coderv1alpha1.TokenSecretReference{Name: name, Key: "token"}
		result := w.pass()
		w.WantState(result.Result, Failed, reason)
		if len(w.Coder.Proxies()) != 1 || ptr.Deref(result.Registered, true) {
			t.Errorf("%s: %d proxies, result %+v", name, len(w.Coder.Proxies()), result)
		}
	}
	w.proxy.Spec.ProxySessionTokenSecretRef.Name = tokenSecret
	w.WantState(w.pass().Result, Failed, coderv1alpha1.ReasonInvalidSpec)
	w.giveToken()
	w.settle()
	if got := w.only(w.Coder); got.Name != "by-hand" {
		t.Errorf("Coder has %+v", got)
	}
	if w.HasSecret(tokenSecret) {
		t.Error("the Secret of the former registration is left")
	}
}

func TestAnOwnTokenThatCannotBeVerifiedIsUsed(t *testing.T) {
	w := newWorld(t)
	w.giveToken()
	w.Coder.Fail(coderdtest.Fault{DropConnection: true})
	result := w.pass()
	w.WantState(result.Result, Unverified, coderv1alpha1.ReasonNotChecked)
	if result.TokenRef == nil || result.Registered != nil {
		t.Errorf("result %+v", result)
	}
	w.Asked()
	w.WantState(w.pass().Result, Unverified, coderv1alpha1.ReasonNotChecked)
	if n := w.Asked(); n != 0 {
		t.Errorf("%d requests at once again", n)
	}
}

// TestK19DeletionUnregisters covers a fault of the predecessor: it left the record in Coder.
func TestK19DeletionUnregisters(t *testing.T) {
	for name, prepare := range map[string]func(w *world){
		"control plane": func(*world) {},
		"bootstrap":     func(w *world) { w.viaBootstrap() },
		"lost Secret":   func(w *world) { w.settle(); w.Delete(w.Secret(tokenSecret)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			prepare(w)
			if name != "lost Secret" {
				w.settle()
			}
			result := w.remove()
			w.WantState(result.Result, Ready, coderv1alpha1.ReasonUnregistered)
			if ensuretest.Reasons(result.Events) != "Unregistered" || len(result.LeftBehind) != 0 {
				t.Errorf("result %+v", result)
			}
			w.checkNone(w.Coder.Proxies())
			w.checkNone(w.other.Proxies())
			w.WantState(w.remove().Result, Ready, coderv1alpha1.ReasonUnregistered)
		})
	}
}

func TestDeletionLeavesProxiesOfOthersAlone(t *testing.T) {
	w := newWorld(t)
	w.Coder.AddProxy("sydney", "Theirs", "/x.png")
	w.pass()
	w.WantState(w.remove().Result, Ready, coderv1alpha1.ReasonUnregistered)
	w.only(w.Coder)

	own := newWorld(t)
	own.giveToken()
	own.settle()
	own.WantState(own.remove().Result, Ready, coderv1alpha1.ReasonUnregistered)
	own.only(own.Coder)
}

func TestDeletionSaysWhatIsLeftBehind(t *testing.T) {
	w := newWorld(t)
	w.settle()
	end := w.Coder.Fail(coderdtest.Fault{DropConnection: true})
	result := w.remove()
	w.WantState(result.Result, Waiting, coderv1alpha1.ReasonUnreachable)
	if len(result.LeftBehind) != 1 || !strings.Contains(result.LeftBehind[0], `"sydney"`) {
		t.Errorf("left behind: %q", result.LeftBehind)
	}
	end()
	cp := &coderv1alpha1.CoderControlPlane{}
	w.Get("dev", cp)
	w.Delete(cp)
	result = w.remove()
	w.WantState(result.Result, Ready, coderv1alpha1.ReasonUnregistered)
	if len(result.LeftBehind) != 1 || !strings.Contains(result.LeftBehind[0], `no CoderControlPlane "dev"`) {
		t.Errorf("left behind: %q", result.LeftBehind)
	}
}
