package registration

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

func TestTheNewRegistrationComesFirst(t *testing.T) {
	w := newWorld(t)
	w.settle()
	old := w.token()
	w.proxy.Spec.ControlPlaneRef.Name = "next"
	theirs := w.other.AddProxy("sydney", "Theirs", "/x.png")
	result := w.pass()
	wantState(t, result, Failed, coderv1alpha1.ReasonNameTaken)
	if result.TokenRef == nil || result.AccessURL != accessURL || w.token() != old || len(w.coder.Proxies()) != 1 {
		t.Errorf("the old registration is gone before there is a new one: %+v", result)
	}
	w.other.RemoveProxy(theirs.Name)
	result = w.settle()
	w.checkWhole(w.other, "sydney", "sydney", coderd.DefaultProxyIcon)
	w.checkNone(w.coder.Proxies())
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
	if through := w.read(tokenSecret).Annotations[AnnotationThrough]; through != "Secret/owner/token" {
		t.Errorf("it would be removed through %q", through)
	}
}

func TestAFormerCoderThatIsAwayIsTriedForAnHour(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.proxy.Spec.ControlPlaneRef.Name = "next"
	end := w.coder.Fail(coderdtest.Fault{DropConnection: true})
	result := w.pass()
	wantState(t, result, Ready, coderv1alpha1.ReasonRegistered)
	if result.RequeueAfter != time.Minute || !strings.Contains(result.Message, "not removed yet") {
		t.Errorf("result %+v", result)
	}
	w.forward(59 * time.Minute)
	if again := w.pass(); again.Message != result.Message || len(again.Events) != 0 {
		t.Errorf("message %q, Events %q", again.Message, reasons(again))
	}
	w.forward(time.Minute)
	result = w.pass()
	wantState(t, result, Ready, coderv1alpha1.ReasonRegistered)
	if reasons(result) != "UnregistrationSkipped" || !strings.Contains(result.Events[0].Message, w.coder.URL) {
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
	end := w.coder.Fail(coderdtest.Fault{Status: 503})
	w.pass()
	end()
	w.forward(time.Minute)
	if got := reasons(w.pass()); got != "Unregistered" {
		t.Errorf("Events %q", got)
	}
	w.checkNone(w.coder.Proxies())
}

func TestAFormerControlPlaneThatIsGoneIsTold(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.proxy.Spec.ControlPlaneRef.Name = "next"
	cp := &coderv1alpha1.CoderControlPlane{}
	w.get("dev", cp)
	w.drop(cp)
	result := w.pass()
	wantState(t, result, Ready, coderv1alpha1.ReasonRegistered)
	if !strings.Contains(reasons(result), "UnregistrationSkipped") {
		t.Errorf("Events %q", reasons(result))
	}
	w.checkWhole(w.other, "sydney", "sydney", coderd.DefaultProxyIcon)
}

func TestAnOwnTokenRegistersNothing(t *testing.T) {
	w := newWorld(t)
	w.giveToken()
	w.coder.ResetRequests()
	result := w.pass()
	wantState(t, result, Ready, coderv1alpha1.ReasonTokenAccepted)
	if result.TokenRef.Name != "mine" || result.ProxyID != "" || !ptr.Deref(result.Registered, false) || w.coder.Writes() != 0 {
		t.Errorf("result %+v", result)
	}
	if w.get(tokenSecret, &corev1.Secret{}) {
		t.Error("a Secret was made")
	}
	w.asked()
	w.forward(30 * time.Minute)
	w.pass()
	if n := w.asked(); n != 0 {
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
		wantState(t, result, Failed, reason)
		if len(w.coder.Proxies()) != 1 || ptr.Deref(result.Registered, true) {
			t.Errorf("%s: %d proxies, result %+v", name, len(w.coder.Proxies()), result)
		}
	}
	w.proxy.Spec.ProxySessionTokenSecretRef.Name = tokenSecret
	wantState(t, w.pass(), Failed, coderv1alpha1.ReasonInvalidSpec)
	w.giveToken()
	w.settle()
	if got := w.only(w.coder); got.Name != "by-hand" {
		t.Errorf("Coder has %+v", got)
	}
	if w.get(tokenSecret, &corev1.Secret{}) {
		t.Error("the Secret of the former registration is left")
	}
}

func TestAnOwnTokenThatCannotBeVerifiedIsUsed(t *testing.T) {
	w := newWorld(t)
	w.giveToken()
	w.coder.Fail(coderdtest.Fault{DropConnection: true})
	result := w.pass()
	wantState(t, result, Unverified, coderv1alpha1.ReasonNotChecked)
	if result.TokenRef == nil || result.Registered != nil {
		t.Errorf("result %+v", result)
	}
	w.asked()
	wantState(t, w.pass(), Unverified, coderv1alpha1.ReasonNotChecked)
	if n := w.asked(); n != 0 {
		t.Errorf("%d requests at once again", n)
	}
}

// TestK19DeletionUnregisters covers a fault of the predecessor: it left the record in Coder.
func TestK19DeletionUnregisters(t *testing.T) {
	for name, prepare := range map[string]func(w *world){
		"control plane": func(*world) {},
		"bootstrap":     func(w *world) { w.viaBootstrap() },
		"lost Secret":   func(w *world) { w.settle(); w.drop(w.read(tokenSecret)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			prepare(w)
			if name != "lost Secret" {
				w.settle()
			}
			result := w.remove()
			wantState(t, result, Ready, coderv1alpha1.ReasonUnregistered)
			if reasons(result) != "Unregistered" || len(result.LeftBehind) != 0 {
				t.Errorf("result %+v", result)
			}
			w.checkNone(w.coder.Proxies())
			w.checkNone(w.other.Proxies())
			wantState(t, w.remove(), Ready, coderv1alpha1.ReasonUnregistered)
		})
	}
}

func TestDeletionLeavesProxiesOfOthersAlone(t *testing.T) {
	w := newWorld(t)
	w.coder.AddProxy("sydney", "Theirs", "/x.png")
	w.pass()
	wantState(t, w.remove(), Ready, coderv1alpha1.ReasonUnregistered)
	w.only(w.coder)

	own := newWorld(t)
	own.giveToken()
	own.settle()
	wantState(t, own.remove(), Ready, coderv1alpha1.ReasonUnregistered)
	own.only(own.coder)
}

func TestDeletionSaysWhatIsLeftBehind(t *testing.T) {
	w := newWorld(t)
	w.settle()
	end := w.coder.Fail(coderdtest.Fault{DropConnection: true})
	result := w.remove()
	wantState(t, result, Waiting, coderv1alpha1.ReasonUnreachable)
	if len(result.LeftBehind) != 1 || !strings.Contains(result.LeftBehind[0], `"sydney"`) {
		t.Errorf("left behind: %q", result.LeftBehind)
	}
	end()
	cp := &coderv1alpha1.CoderControlPlane{}
	w.get("dev", cp)
	w.drop(cp)
	result = w.remove()
	wantState(t, result, Ready, coderv1alpha1.ReasonUnregistered)
	if len(result.LeftBehind) != 1 || !strings.Contains(result.LeftBehind[0], `no CoderControlPlane "dev"`) {
		t.Errorf("left behind: %q", result.LeftBehind)
	}
}
