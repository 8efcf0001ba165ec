package registration

import (
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure/ensuretest"
)

func TestTheNewRegistrationComesFirst(t *testing.T) {
	f := newFixture(t)
	f.settle()
	old := f.token()
	f.proxy.Spec.ControlPlaneRef.Name = "next"
	theirs := f.other.AddProxy("sydney", "Theirs", "/x.png")
	result := f.pass()
	f.WantState(result.Result, ensure.Failed, coderv1alpha1.ReasonNameTaken)
	if result.TokenRef == nil || result.AccessURL != accessURL || f.token() != old || len(f.Coder.Proxies()) != 1 {
		t.Errorf("the old registration is gone before there is a new one: %+v", result)
	}
	f.other.RemoveProxy(theirs.Name)
	result = f.settle()
	f.checkWhole(f.other, "sydney", "sydney", coderd.DefaultProxyIcon)
	f.checkNone(f.Coder.Proxies())
	if result.ProxyID != f.only(f.other).ID.String() {
		t.Errorf("result %+v", result)
	}
}

// The Secret is renamed and renamed back, with another Coder in between, while the pods still use the
// first registration.
func TestWhatPodsUseStaysUntilTheyAreReplaced(t *testing.T) {
	f := newFixture(t)
	f.settle()
	f.slow = true
	f.proxy.Spec.Bootstrap.GeneratedTokenSecretName = "renamed"
	f.settle()
	f.proxy.Spec.ControlPlaneRef.Name = "next"
	f.settle()
	f.proxy.Spec.Bootstrap.GeneratedTokenSecretName = ""
	f.settle()
	if f.only(f.Coder); !f.HasSecret("renamed") {
		t.Error("the Secret is gone")
	}
	f.only(f.other)
	f.Coder.Asked()
	f.other.Asked()
	if f.pass(); f.Coder.Asked()+f.other.Asked() != 0 {
		t.Error("it asks Coder at rest")
	}
	f.slow = false
	f.settle()
	f.checkWhole(f.other, "sydney", "sydney", coderd.DefaultProxyIcon)
	f.checkNone(f.Coder.Proxies())
	if f.HasSecret("renamed") {
		t.Error("the Secret is left")
	}
}

func TestTheSameCoderByAnotherWayIsTheSameRegistration(t *testing.T) {
	f := newFixture(t)
	f.proxy.Spec.ControlPlaneRef.Name = "next"
	f.settle()
	id, token := f.only(f.other).ID, f.token()
	f.viaBootstrap()
	f.settle()
	f.checkWhole(f.other, "sydney", "sydney", coderd.DefaultProxyIcon)
	if f.only(f.other).ID != id || f.token() != token {
		t.Error("it was registered anew")
	}
	if through := f.Secret(tokenSecret).Annotations[AnnotationThrough]; through != "Secret/owner/token" {
		t.Errorf("it would be removed through %q", through)
	}
}

func TestAFormerCoderThatIsAwayIsTriedForAnHour(t *testing.T) {
	f := newFixture(t)
	f.settle()
	f.proxy.Spec.ControlPlaneRef.Name = "next"
	end := f.Coder.Fail(coderdtest.Fault{DropConnection: true})
	result := f.pass()
	f.WantState(result.Result, ensure.Ready, coderv1alpha1.ReasonRegistered)
	if result.RequeueAfter != time.Minute || !strings.Contains(result.Message, "not removed yet") {
		t.Errorf("result %+v", result)
	}
	f.Forward(59 * time.Minute)
	if again := f.pass(); again.Message != result.Message || len(again.Events) != 0 {
		t.Errorf("message %q, Events %q", again.Message, ensuretest.Reasons(again.Events))
	}
	f.Forward(time.Minute)
	result = f.pass()
	f.WantState(result.Result, ensure.Ready, coderv1alpha1.ReasonRegistered)
	if ensuretest.Reasons(result.Events) != "UnregistrationSkipped" || !strings.Contains(result.Events[0].Message, f.Coder.URL) {
		t.Errorf("Events %+v", result.Events)
	}
	end()
	f.checkWhole(f.other, "sydney", "sydney", coderd.DefaultProxyIcon)
	if again := f.pass(); again.RequeueAfter < 50*time.Minute || len(again.Events) != 0 {
		t.Errorf("it is not at rest: %+v", again)
	}
}

// TestTheHourBeginsWhenThePodsAreReplaced checks that a slow rollout leaves the time to try again.
func TestTheHourBeginsWhenThePodsAreReplaced(t *testing.T) {
	f := newFixture(t)
	f.settle()
	f.slow = true
	f.proxy.Spec.ControlPlaneRef.Name = "next"
	f.pass()
	f.Forward(2 * time.Hour)
	f.slow = false
	end := f.Coder.Fail(coderdtest.Fault{Status: 500})
	if result := f.pass(); !strings.Contains(result.Message, "not removed yet") || len(result.Events) != 0 {
		t.Errorf("message %q, Events %q", result.Message, ensuretest.Reasons(result.Events))
	}
	end()
	f.Forward(time.Minute)
	f.pass()
	f.checkNone(f.Coder.Proxies())
}

func TestAFormerCoderThatComesBackIsCleaned(t *testing.T) {
	f := newFixture(t)
	f.settle()
	f.proxy.Spec.ControlPlaneRef.Name = "next"
	end := f.Coder.Fail(coderdtest.Fault{Status: 503})
	f.pass()
	end()
	f.Forward(time.Minute)
	if got := ensuretest.Reasons(f.pass().Events); got != "Unregistered" {
		t.Errorf("Events %q", got)
	}
	f.checkNone(f.Coder.Proxies())
}

func TestAFormerControlPlaneThatIsGoneIsTold(t *testing.T) {
	f := newFixture(t)
	f.settle()
	f.proxy.Spec.ControlPlaneRef.Name = "next"
	cp := &coderv1alpha1.CoderControlPlane{}
	f.Has("dev", cp)
	f.Remove(cp)
	result := f.pass()
	f.WantState(result.Result, ensure.Ready, coderv1alpha1.ReasonRegistered)
	if !strings.Contains(ensuretest.Reasons(result.Events), "UnregistrationSkipped") {
		t.Errorf("Events %q", ensuretest.Reasons(result.Events))
	}
	f.checkWhole(f.other, "sydney", "sydney", coderd.DefaultProxyIcon)
}

func TestAnOwnTokenRegistersNothing(t *testing.T) {
	f := newFixture(t)
	f.giveToken()
	f.Coder.ResetRequests()
	result := f.pass()
	f.WantState(result.Result, ensure.Ready, coderv1alpha1.ReasonTokenAccepted)
	if result.TokenRef.Name != "mine" || result.ProxyID != "" || !ptr.Deref(result.Registered, false) || f.Coder.Writes() != 0 {
		t.Errorf("result %+v", result)
	}
	if f.HasSecret(tokenSecret) {
		t.Error("a Secret was made")
	}
	f.Coder.Asked()
	f.Forward(30 * time.Minute)
	f.pass()
	if n := f.Coder.Asked(); n != 0 {
		t.Errorf("%d requests at rest", n)
	}
}

func TestAnOwnTokenReplacesARegistrationOnlyIfCoderTakesIt(t *testing.T) {
	f := newFixture(t)
	f.settle()
	f.secret("bad", map[string]string{"token": "00000000-0000-0000-0000-000000000001:" + strings.Repeat("x", 64)})
	f.proxy.Spec.ControlPlaneRef = nil
	for name, reason := range map[string]string{"absent": coderv1alpha1.ReasonTokenSecretMissing, "bad": coderv1alpha1.ReasonTokenRefused} {
		f.proxy.Spec.ProxySessionTokenSecretRef = &coderv1alpha1.TokenSecretReference{Name: name, Key: "token"}
		result := f.pass()
		f.WantState(result.Result, ensure.Failed, reason)
		if len(f.Coder.Proxies()) != 1 || ptr.Deref(result.Registered, true) {
			t.Errorf("%s: %d proxies, result %+v", name, len(f.Coder.Proxies()), result)
		}
	}
	f.proxy.Spec.ProxySessionTokenSecretRef.Name = tokenSecret
	f.WantState(f.pass().Result, ensure.Failed, coderv1alpha1.ReasonInvalidSpec)
	f.giveToken()
	f.settle()
	if got := f.only(f.Coder); got.Name != "by-hand" {
		t.Errorf("Coder has %+v", got)
	}
	if f.HasSecret(tokenSecret) {
		t.Error("the Secret of the former registration is left")
	}
}

// A user copies the operator's token into another Secret and names that one in the spec.
func TestACopiedTokenHandsTheRegistrationOver(t *testing.T) {
	for name, do := range map[string]func(*fixture){
		"while it runs":          func(f *fixture) { f.settle() },
		"and is deleted at once": func(f *fixture) { f.remove() },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.settle()
			f.secret("mine", map[string]string{"token": f.token()})
			f.proxy.Spec.ControlPlaneRef = nil
			f.proxy.Spec.ProxySessionTokenSecretRef = &coderv1alpha1.TokenSecretReference{Name: "mine"}
			do(f)
			if got := f.only(f.Coder); got.Token != string(f.Secret("mine").Data["token"]) {
				t.Errorf("Coder has %+v", got)
			}
		})
	}
}

// The Secret of the operator itself hands nothing over.
func TestTheOperatorsOwnSecretIsNoHandover(t *testing.T) {
	f := newFixture(t)
	f.settle()
	f.proxy.Spec.ControlPlaneRef = nil
	f.proxy.Spec.ProxySessionTokenSecretRef = &coderv1alpha1.TokenSecretReference{Name: tokenSecret}
	f.WantState(f.pass().Result, ensure.Failed, coderv1alpha1.ReasonInvalidSpec)
	f.remove()
	f.checkNone(f.Coder.Proxies())
}

func TestAnOwnTokenThatCannotBeVerifiedIsUsed(t *testing.T) {
	f := newFixture(t)
	f.giveToken()
	f.Coder.Fail(coderdtest.Fault{DropConnection: true})
	result := f.pass()
	f.WantState(result.Result, Unverified, coderv1alpha1.ReasonNotChecked)
	if result.TokenRef == nil || result.Registered != nil {
		t.Errorf("result %+v", result)
	}
	f.Coder.Asked()
	f.WantState(f.pass().Result, Unverified, coderv1alpha1.ReasonNotChecked)
	if n := f.Coder.Asked(); n != 0 {
		t.Errorf("%d requests at once again", n)
	}
}

// TestK19DeletionUnregisters covers a fault of the predecessor: it left the record in Coder.
func TestK19DeletionUnregisters(t *testing.T) {
	for name, prepare := range map[string]func(f *fixture){
		"control plane": func(*fixture) {},
		"bootstrap":     func(f *fixture) { f.viaBootstrap() },
		"lost Secret":   func(f *fixture) { f.settle(); f.Remove(f.Secret(tokenSecret)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			prepare(f)
			if name != "lost Secret" {
				f.settle()
			}
			result := f.remove()
			f.WantState(result.Result, ensure.Ready, coderv1alpha1.ReasonUnregistered)
			if ensuretest.Reasons(result.Events) != "Unregistered" || len(result.LeftBehind) != 0 {
				t.Errorf("result %+v", result)
			}
			f.checkNone(f.Coder.Proxies())
			f.checkNone(f.other.Proxies())
			f.WantState(f.remove().Result, ensure.Ready, coderv1alpha1.ReasonUnregistered)
		})
	}
}

func TestDeletionLeavesProxiesOfOthersAlone(t *testing.T) {
	f := newFixture(t)
	f.Coder.AddProxy("sydney", "Theirs", "/x.png")
	f.pass()
	f.WantState(f.remove().Result, ensure.Ready, coderv1alpha1.ReasonUnregistered)
	f.only(f.Coder)

	own := newFixture(t)
	own.giveToken()
	own.settle()
	own.WantState(own.remove().Result, ensure.Ready, coderv1alpha1.ReasonUnregistered)
	own.only(own.Coder)
}

func TestDeletionSaysWhatIsLeftBehind(t *testing.T) {
	f := newFixture(t)
	f.settle()
	end := f.Coder.Fail(coderdtest.Fault{DropConnection: true})
	result := f.remove()
	f.WantState(result.Result, ensure.Waiting, coderv1alpha1.ReasonUnreachable)
	if len(result.LeftBehind) != 1 || !strings.Contains(result.LeftBehind[0], `"sydney"`) {
		t.Errorf("left behind: %q", result.LeftBehind)
	}
	end()
	cp := &coderv1alpha1.CoderControlPlane{}
	f.Has("dev", cp)
	f.Remove(cp)
	result = f.remove()
	f.WantState(result.Result, ensure.Ready, coderv1alpha1.ReasonUnregistered)
	if len(result.LeftBehind) != 1 || !strings.Contains(result.LeftBehind[0], `no CoderControlPlane "dev"`) {
		t.Errorf("left behind: %q", result.LeftBehind)
	}
}
