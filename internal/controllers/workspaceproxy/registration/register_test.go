package registration

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure/ensuretest"
)

func TestRegistersAndThenRests(t *testing.T) {
	w := newWorld(t)
	result := w.pass()
	w.WantState(result.Result, Ready, coderv1alpha1.ReasonRegistered)
	if got := ensuretest.Reasons(result.Events); got != "Registered" {
		t.Errorf("Events %q", got)
	}
	w.checkWhole(w.Coder, "sydney", "sydney", coderd.DefaultProxyIcon)
	got := w.only(w.Coder)
	if result.ProxyID != got.ID.String() || result.ProxyName != "sydney" || result.AccessURL != accessURL ||
		result.TokenRef == nil || result.TokenRef.Name != tokenSecret || !ptr.Deref(result.Registered, false) {
		t.Errorf("result %+v", result)
	}
	if result.RequeueAfter != time.Hour {
		t.Errorf("looks again after %v, want an hour", result.RequeueAfter)
	}
	if !metav1.IsControlledBy(w.Secret(tokenSecret), w.proxy) {
		t.Error("the Secret is not the proxy's")
	}

	w.Asked()
	writes := w.Writes
	for range 5 {
		w.Forward(10 * time.Minute)
		again := w.pass()
		if again.Message != result.Message || len(again.Events) != 0 {
			t.Errorf("at rest: %q, Events %q", again.Message, ensuretest.Reasons(again.Events))
		}
	}
	if n := w.Asked(); n != 0 || w.Writes != writes {
		t.Errorf("%d requests and %d writes at rest", n, w.Writes-writes)
	}
	w.Forward(10 * time.Minute)
	w.pass()
	if n := w.Asked(); n != 2 || w.Writes != writes {
		t.Errorf("%d requests and %d writes after an hour, want 2 and none", n, w.Writes-writes)
	}
}

func TestPodsThatAreNotReadyMakeItAskAgainSoon(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.healthy = false
	w.regenerate()
	w.Asked()
	w.Forward(59 * time.Second)
	w.pass()
	if n := w.Asked(); n != 0 {
		t.Errorf("%d requests within a minute", n)
	}
	w.Forward(time.Second)
	if got := ensuretest.Reasons(w.pass().Events); got != "TokenRegenerated" {
		t.Errorf("Events %q", got)
	}
	w.checkWhole(w.Coder, "sydney", "sydney", coderd.DefaultProxyIcon)
}

// TestK19TheTokenIsVerifiedAgainstCoder covers a fault of the predecessor: it never checked the
// token again.
func TestK19TheTokenIsVerifiedAgainstCoder(t *testing.T) {
	w := newWorld(t)
	w.settle()
	old := w.token()
	w.regenerate()
	w.restart()
	result := w.pass()
	w.WantState(result.Result, Ready, coderv1alpha1.ReasonRegistered)
	if got := ensuretest.Reasons(result.Events); got != "TokenRegenerated" {
		t.Errorf("Events %q", got)
	}
	if w.token() == old {
		t.Error("the Secret has the old token")
	}
	w.checkWhole(w.Coder, "sydney", "sydney", coderd.DefaultProxyIcon)
	w.restart()
	if again := w.pass(); len(again.Events) != 0 {
		t.Errorf("regenerated twice: %q", ensuretest.Reasons(again.Events))
	}
}

// TestK19NameDisplayNameAndIconAreKeptInLine covers a fault of the predecessor: it ignored changes
// of the spec.
func TestK19NameDisplayNameAndIconAreKeptInLine(t *testing.T) {
	w := newWorld(t)
	w.settle()
	id, token := w.only(w.Coder).ID, w.token()
	bootstrap := &w.proxy.Spec.Bootstrap
	for _, step := range []func(){
		func() { bootstrap.DisplayName = "Sydney, Australia" },
		func() { bootstrap.Icon = "/emojis/1f30f.png" },
		func() { bootstrap.ProxyName = "oceania" },
		func() { bootstrap.ProxyName = "Oceania" },
		func() { bootstrap.DisplayName, bootstrap.Icon, bootstrap.ProxyName = "", "", "" },
	} {
		step()
		result := w.pass()
		w.WantState(result.Result, Ready, coderv1alpha1.ReasonRegistered)
		if got := ensuretest.Reasons(result.Events); got != "RegistrationChanged" {
			t.Errorf("Events %q", got)
		}
		name, display, icon := "sydney", "sydney", coderd.DefaultProxyIcon
		if bootstrap.ProxyName != "" {
			name, display = bootstrap.ProxyName, bootstrap.ProxyName
		}
		if bootstrap.DisplayName != "" {
			display = bootstrap.DisplayName
		}
		if bootstrap.Icon != "" {
			icon = bootstrap.Icon
		}
		w.checkWhole(w.Coder, name, display, icon)
		if result.ProxyName != name {
			t.Errorf("the result names %q, want %q", result.ProxyName, name)
		}
	}
	if got := w.only(w.Coder); got.ID != id || w.token() != token {
		t.Error("the proxy was made anew, or its token")
	}
	// A user changes the proxy in Coder.
	if _, _, err := w.as("dev-operator-token", w.Coder).UpdateWorkspaceProxy(w.Ctx, id, "elsewhere", "Elsewhere", "/x.png", false); err != nil {
		t.Fatal(err)
	}
	w.Forward(time.Hour)
	w.settle()
	w.checkWhole(w.Coder, "sydney", "sydney", coderd.DefaultProxyIcon)
}

// TestK19AProxyOfSomebodyElseIsNotSeized covers a fault of the predecessor: it regenerated the
// token of another owner's proxy.
func TestK19AProxyOfSomebodyElseIsNotSeized(t *testing.T) {
	w := newWorld(t)
	theirs := w.Coder.AddProxy("sydney", "Theirs", "/emojis/1f1e6-1f1fa.png")
	for range 3 {
		result := w.pass()
		w.WantState(result.Result, Failed, coderv1alpha1.ReasonNameTaken)
		if result.TokenRef != nil || result.RequeueAfter < time.Minute || !strings.Contains(result.Message, `"sydney"`) {
			t.Errorf("result %+v", result)
		}
		w.restart()
	}
	if got := w.only(w.Coder); got != theirs {
		t.Errorf("their proxy is %+v, was %+v", got, theirs)
	}
	if w.Writes != 0 && w.HasSecret(tokenSecret) {
		t.Error("a Secret was made for nothing")
	}
	// Names are compared without regard to case.
	w.Coder.RemoveProxy("sydney")
	w.Coder.AddProxy("SYDNEY", "Theirs", "/x.png")
	w.WantState(w.pass().Result, Failed, coderv1alpha1.ReasonNameTaken)
	w.Coder.RemoveProxy("SYDNEY")
	w.WantState(w.settle().Result, Ready, coderv1alpha1.ReasonRegistered)
}

func TestARenameDoesNotSeizeEither(t *testing.T) {
	w := newWorld(t)
	w.settle()
	theirs := w.Coder.AddProxy("oceania", "Theirs", "/x.png")
	w.proxy.Spec.Bootstrap.ProxyName = "oceania"
	w.Coder.ResetRequests()
	result := w.pass()
	w.WantState(result.Result, Failed, coderv1alpha1.ReasonNameTaken)
	if result.TokenRef == nil || !ptr.Deref(result.Registered, false) || result.ProxyName != "sydney" {
		t.Errorf("what works is not told: %+v", result)
	}
	if n := w.Coder.Writes(); n != 0 {
		t.Errorf("%d writes to Coder", n)
	}
	if p := w.Coder.Proxies(); len(p) != 2 || p[1] != theirs {
		t.Errorf("proxies %+v", p)
	}
}

func TestOfTwoThatWantOneNameTheOlderHasIt(t *testing.T) {
	w := newWorld(t)
	younger := newProxy(func(p *coderv1alpha1.CoderWorkspaceProxy) {
		p.Name, p.UID = "perth", "other-uid"
		p.Spec.Bootstrap.ProxyName = "Sydney"
		p.CreationTimestamp = metav1.NewTime(p.CreationTimestamp.Add(time.Minute))
	})
	w.Create(younger)
	w.Coder.ResetRequests()
	for range 2 {
		result, err := w.manager.Ensure(w.Ctx, Request{Proxy: younger, AccessURL: accessURL})
		if err != nil {
			t.Fatal(err)
		}
		w.WantState(result.Result, Failed, coderv1alpha1.ReasonNameTaken)
		if !strings.Contains(result.Message, `"sydney"`) || w.Coder.Writes() != 0 {
			t.Errorf("message %q, %d writes to Coder", result.Message, w.Coder.Writes())
		}
		w.settle()
		w.checkWhole(w.Coder, "sydney", "sydney", coderd.DefaultProxyIcon)
		w.Coder.ResetRequests()
	}
	// When the older one is deleted, the younger one gets the name.
	w.remove()
	w.Delete(w.proxy.DeepCopy())
	result, err := w.manager.Ensure(w.Ctx, Request{Proxy: younger, AccessURL: accessURL})
	if err != nil {
		t.Fatal(err)
	}
	w.WantState(result.Result, Ready, coderv1alpha1.ReasonRegistered)
}

// TestACacheThatIsBehindCreatesNothing checks that nothing is registered for a deleted object,
// because no later pass would remove it.
func TestACacheThatIsBehindCreatesNothing(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"gone": func(w *world) { w.Delete(w.proxy.DeepCopy()) },
		"another one": func(w *world) {
			w.Delete(w.proxy.DeepCopy())
			again := newProxy()
			again.UID = "another-uid"
			w.Create(again)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			change(w)
			w.WantState(w.pass().Result, Waiting, coderv1alpha1.ReasonDeleting)
			if len(w.Coder.Proxies()) != 0 || w.HasSecret(tokenSecret) {
				t.Error("something was made")
			}
		})
	}
}

func TestOneNameInTwoCodersIsNoConflict(t *testing.T) {
	w := newWorld(t)
	other := newProxy(func(p *coderv1alpha1.CoderWorkspaceProxy) {
		p.Name, p.UID, p.Spec.ControlPlaneRef.Name = "zurich", "other-uid", "next"
		p.Spec.Bootstrap.ProxyName = "sydney"
	})
	w.Create(other)
	w.settle()
	result, err := w.manager.Ensure(w.Ctx, Request{Proxy: other, AccessURL: accessURL})
	if err != nil {
		t.Fatal(err)
	}
	w.WantState(result.Result, Ready, coderv1alpha1.ReasonRegistered)
}

func TestALostSecretIsMadeAgain(t *testing.T) {
	w := newWorld(t)
	w.settle()
	id := w.only(w.Coder).ID
	w.Delete(w.Secret(tokenSecret))
	result := w.pass()
	w.WantState(result.Result, Ready, coderv1alpha1.ReasonRegistered)
	w.checkWhole(w.Coder, "sydney", "sydney", coderd.DefaultProxyIcon)
	if w.only(w.Coder).ID != id || ensuretest.Reasons(result.Events) != "TokenRegenerated" {
		t.Errorf("made anew, or Events %q", ensuretest.Reasons(result.Events))
	}
}

func TestALostTokenIsMadeAgain(t *testing.T) {
	w := newWorld(t)
	w.settle()
	for _, value := range []string{"", "nonsense", "00000000-0000-0000-0000-000000000001:" + strings.Repeat("x", 64)} {
		secret := w.Secret(tokenSecret)
		secret.Data = map[string][]byte{"token": []byte(value)}
		w.Update(secret)
		w.settle()
		w.checkWhole(w.Coder, "sydney", "sydney", coderd.DefaultProxyIcon)
	}
}

func TestARegistrationDeletedInCoderIsMadeAnew(t *testing.T) {
	w := newWorld(t)
	w.settle()
	id := w.only(w.Coder).ID
	w.Coder.RemoveProxy("sydney")
	w.Forward(time.Hour)
	if got := ensuretest.Reasons(w.pass().Events); got != "Registered" {
		t.Errorf("Events %q", got)
	}
	w.checkWhole(w.Coder, "sydney", "sydney", coderd.DefaultProxyIcon)
	if w.only(w.Coder).ID == id {
		t.Error("a deleted proxy came back")
	}
}

func TestASecretOfSomebodyElseIsNotTouched(t *testing.T) {
	w := newWorld(t)
	w.secret(tokenSecret, map[string]string{"token": "theirs"})
	w.Asked()
	result := w.pass()
	w.WantState(result.Result, Failed, coderv1alpha1.ReasonNotOwned)
	if !result.SecretForeign || result.TokenRef != nil || w.token() != "theirs" || w.Asked() != 0 {
		t.Errorf("result %+v", result)
	}
	// A proxy that already has a Secret keeps working with that Secret.
	w.proxy.Spec.Bootstrap.GeneratedTokenSecretName = "free"
	w.settle()
	w.proxy.Spec.Bootstrap.GeneratedTokenSecretName = tokenSecret
	result = w.pass()
	w.WantState(result.Result, Failed, coderv1alpha1.ReasonNotOwned)
	if result.TokenRef == nil || result.TokenRef.Name != "free" {
		t.Errorf("the token in use is %v", result.TokenRef)
	}
}

func TestTheSecretMovesWithItsName(t *testing.T) {
	w := newWorld(t)
	w.settle()
	id, token := w.only(w.Coder).ID, w.token()
	w.proxy.Spec.Bootstrap.GeneratedTokenSecretName = "renamed"
	w.Coder.ResetRequests()
	result := w.settle()
	if result.TokenRef.Name != "renamed" || string(w.Secret("renamed").Data["token"]) != token || w.HasSecret(tokenSecret) {
		t.Errorf("token ref %v", result.TokenRef)
	}
	if w.only(w.Coder).ID != id || w.Coder.Writes() != 0 {
		t.Error("Coder was changed for it")
	}
}

// TestThePredecessorsSecretIsTakenOver covers a Secret that contains only the token. The token
// begins with the id.
func TestThePredecessorsSecretIsTakenOver(t *testing.T) {
	w := newWorld(t)
	made := w.Coder.AddProxy("sydney", "sydney", "")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ensuretest.Namespace, Name: tokenSecret}, Data: map[string][]byte{"token": []byte(made.Token)}}
	secret.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(w.proxy, coderv1alpha1.GroupVersion.WithKind("CoderWorkspaceProxy"))}
	w.Create(secret)
	w.settle()
	w.checkWhole(w.Coder, "sydney", "sydney", coderd.DefaultProxyIcon)
	if got := w.only(w.Coder); got.ID != made.ID || got.Token != made.Token {
		t.Errorf("proxy %+v, was %+v", got, made)
	}
}

func TestBootstrapNeedsItsToken(t *testing.T) {
	w := newWorld(t)
	w.viaBootstrap()
	w.proxy.Spec.Bootstrap.CredentialsSecretRef.Name = "absent"
	result := w.pass()
	w.WantState(result.Result, Failed, coderv1alpha1.ReasonTokenSecretMissing)
	if !strings.Contains(result.Message, `"absent"`) || !strings.Contains(result.Message, "credentialsSecretRef") {
		t.Errorf("message %q", result.Message)
	}
	w.proxy.Spec.Bootstrap.CredentialsSecretRef.Name = "owner"
	w.WantState(w.settle().Result, Ready, coderv1alpha1.ReasonRegistered)
	w.checkWhole(w.other, "sydney", "sydney", coderd.DefaultProxyIcon)
}

func TestControlPlanesThatCannotBeUsed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*coderv1alpha1.CoderControlPlane)
		state  State
		reason string
	}{
		"no address":   {func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.URL = "" }, Waiting, coderv1alpha1.ReasonWaiting},
		"no token":     {func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.OperatorTokenSecretRef = nil }, Waiting, coderv1alpha1.ReasonWaiting},
		"no access":    {func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.OperatorAccessReady = false }, Waiting, coderv1alpha1.ReasonWaiting},
		"disabled":     {func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.OperatorAccess.Disabled = true }, Failed, coderv1alpha1.ReasonOperatorAccessDisabled},
		"not readable": {func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.OperatorTokenSecretRef.Name = "absent" }, Waiting, coderv1alpha1.ReasonWaiting},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.settle()
			cp := &coderv1alpha1.CoderControlPlane{}
			w.Get("dev", cp)
			c.change(cp)
			w.Update(cp)
			w.Asked()
			result := w.pass()
			w.WantState(result.Result, c.state, c.reason)
			if result.TokenRef == nil || result.ProxyID == "" || result.Registered != nil || w.Asked() != 0 {
				t.Errorf("what works is lost: %+v", result)
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		w := newWorld(t)
		w.proxy.Spec.ControlPlaneRef.Name = "none"
		w.WantState(w.pass().Result, Failed, coderv1alpha1.ReasonControlPlaneUnavailable)
	})
}

func TestNamesThatCoderCannotHave(t *testing.T) {
	for _, name := range []string{"primary", "-a", "a b", "0c7a1fa4-2a3b-4f63-9d1c-6f5e7c8b9a00"} {
		w := newWorld(t)
		w.proxy.Spec.Bootstrap.ProxyName = name
		result := w.pass()
		w.WantState(result.Result, Failed, coderv1alpha1.ReasonInvalidSpec)
		if !strings.Contains(result.Message, "spec.bootstrap.proxyName") || len(w.Coder.Proxies()) != 0 {
			t.Errorf("message %q", result.Message)
		}
	}
}

// TestCoderThatDoesNotDoIt checks that each failed response has a reason, loses nothing and is not
// retried immediately.
func TestCoderThatDoesNotDoIt(t *testing.T) {
	for name, c := range map[string]struct {
		fault  coderdtest.Fault
		state  State
		reason string
		after  time.Duration
	}{
		"401":       {coderdtest.Fault{Status: 401}, Waiting, coderv1alpha1.ReasonTokenRefused, time.Minute},
		"403":       {coderdtest.Fault{Status: 403}, Failed, coderv1alpha1.ReasonForbidden, time.Minute},
		"license":   {coderdtest.Fault{Status: 403, Message: "Workspace Proxy is a Premium feature. Contact sales!"}, Failed, coderv1alpha1.ReasonNotEntitled, 5 * time.Minute},
		"no route":  {coderdtest.Fault{Status: 404, Message: "Route not found."}, Failed, coderv1alpha1.ReasonNotSupported, 5 * time.Minute},
		"418":       {coderdtest.Fault{Status: 418}, Failed, coderv1alpha1.ReasonCoderRefused, time.Minute},
		"429":       {coderdtest.Fault{Status: 429, RetryAfter: 90 * time.Second}, Waiting, coderv1alpha1.ReasonRateLimited, 90 * time.Second},
		"500":       {coderdtest.Fault{Status: 500}, Waiting, coderv1alpha1.ReasonUnreachable, 15 * time.Second},
		"garbage":   {coderdtest.Fault{HTML: true, Status: 200}, Waiting, coderv1alpha1.ReasonUnreachable, 15 * time.Second},
		"no answer": {coderdtest.Fault{DropConnection: true}, Waiting, coderv1alpha1.ReasonUnreachable, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			fresh := newWorld(t)
			end := fresh.Coder.Fail(c.fault)
			result := fresh.pass()
			fresh.WantState(result.Result, c.state, c.reason)
			if result.RequeueAfter != c.after || result.TokenRef != nil {
				t.Errorf("result %+v", result)
			}
			end()
			fresh.settle()
			fresh.checkWhole(fresh.Coder, "sydney", "sydney", coderd.DefaultProxyIcon)

			// The same must be true after everything worked, for every kind of request.
			for _, method := range []string{"GET", "PATCH"} {
				w := newWorld(t)
				w.settle()
				w.proxy.Spec.Bootstrap.DisplayName = "Changed"
				f := c.fault
				f.Method = method
				end := w.Coder.Fail(f)
				result := w.pass()
				w.WantState(result.Result, c.state, c.reason)
				if result.TokenRef == nil || result.ProxyID == "" {
					t.Errorf("%s: what works is lost: %+v", method, result)
				}
				end()
				w.settle()
				w.checkWhole(w.Coder, "sydney", "Changed", coderd.DefaultProxyIcon)
			}
		})
	}
}

func TestAnAnswerThatIsLostMakesNoSecondProxy(t *testing.T) {
	for _, f := range []coderdtest.Fault{{DropConnection: true}, {Status: 500}, {HTML: true}, {Status: 502, HTML: true}} {
		w := newWorld(t)
		f.Method, f.Processed, f.Times = "POST", true, 1
		w.Coder.Fail(f)
		if result := w.pass(); result.State == Ready {
			t.Fatalf("%+v", result)
		}
		w.settle()
		w.checkWhole(w.Coder, "sydney", "sydney", coderd.DefaultProxyIcon)
	}
}

func TestTheBuildWithoutLicensesIsNotSupported(t *testing.T) {
	w := newWorld(t)
	agpl := coderdtest.New(t)
	w.controlPlane("agpl", agpl)
	w.proxy.Spec.ControlPlaneRef.Name = "agpl"
	w.WantState(w.pass().Result, Failed, coderv1alpha1.ReasonNotSupported)
}

func TestALicenseThatEndsLosesNothing(t *testing.T) {
	w := newWorld(t)
	w.settle()
	w.Coder.SetFeature(coderd.FeatureWorkspaceProxy, "not_entitled")
	w.restart()
	result := w.pass()
	w.WantState(result.Result, Failed, coderv1alpha1.ReasonNotEntitled)
	if result.TokenRef == nil || result.Registered != nil {
		t.Errorf("result %+v", result)
	}
	w.Coder.SetFeature(coderd.FeatureWorkspaceProxy, "entitled")
	w.settle()
	w.checkWhole(w.Coder, "sydney", "sydney", coderd.DefaultProxyIcon)
}

func TestARefusalWakesTheControlPlane(t *testing.T) {
	w := newWorld(t)
	w.settle()
	var told []string
	w.manager.Refused = func(key types.NamespacedName) { told = append(told, key.String()) }
	w.regenerate()
	w.Forward(time.Hour)
	w.settle()
	if len(told) != 0 {
		t.Errorf("a refused session token is told of %q", told)
	}
	w.Coder.RevokeToken(string(w.Secret("dev-operator-token").Data["token"]))
	w.Forward(time.Hour)
	w.WantState(w.pass().Result, Waiting, coderv1alpha1.ReasonTokenRefused)
	if len(told) != 1 || told[0] != "team/dev" {
		t.Errorf("told of %q", told)
	}
}

func TestAGivenTokenThatCoderRefusesNeedsAPerson(t *testing.T) {
	w := newWorld(t)
	w.viaBootstrap()
	w.secret("old", map[string]string{"token": "old-token-of-nobody"})
	w.proxy.Spec.Bootstrap.CredentialsSecretRef.Name = "old"
	w.WantState(w.pass().Result, Failed, coderv1alpha1.ReasonTokenRefused)
	w.proxy.Spec.Bootstrap.CredentialsSecretRef.Name = "owner"
	w.settle()
	w.checkWhole(w.other, "sydney", "sydney", coderd.DefaultProxyIcon)
}

func TestAMemberMayNotRegister(t *testing.T) {
	w := newWorld(t)
	w.viaBootstrap()
	w.secret("member", map[string]string{"token": w.other.AddUser("bob")})
	w.proxy.Spec.Bootstrap.CredentialsSecretRef.Name = "member"
	w.WantState(w.pass().Result, Failed, coderv1alpha1.ReasonForbidden)
	w.proxy.Spec.Bootstrap.CredentialsSecretRef.Name = "owner"
	w.settle()
	w.checkWhole(w.other, "sydney", "sydney", coderd.DefaultProxyIcon)
}
