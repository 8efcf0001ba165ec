package registration

import (
	"cmp"
	"fmt"
	"net/http"
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
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure/ensuretest"
)

// The registration waits until the status has its name: from then on, the API server rejects changes of
// the fields that say where it is.
func TestTheRegistrationWaitsForTheStatus(t *testing.T) {
	f := newFixture(t)
	result, err := f.manager.Ensure(f.Ctx, Request{Proxy: f.proxy, AccessURL: accessURL})
	f.Must(err)
	f.WantState(result.Result, ensure.Waiting, coderv1alpha1.ReasonWaiting)
	if result.ProxyName != "sydney" || result.RequeueAfter == 0 || f.HasSecret(tokenSecret) {
		t.Errorf("result %+v", result)
	}
	f.checkNone(f.Coder.Proxies())
}

func TestRegistersAndThenRests(t *testing.T) {
	f := newFixture(t)
	result := f.pass()
	f.WantState(result.Result, ensure.Ready, coderv1alpha1.ReasonRegistered)
	if got := ensuretest.Reasons(result.Events); got != "Registered" {
		t.Errorf("Events %q", got)
	}
	f.checkWhole(f.Coder, "sydney", "sydney", coderd.DefaultProxyIcon)
	got := f.only(f.Coder)
	if result.ProxyID != got.ID.String() || result.ProxyName != "sydney" ||
		result.TokenRef == nil || result.TokenRef.Name != tokenSecret || !ptr.Deref(result.Registered, false) {
		t.Errorf("result %+v", result)
	}
	if result.RequeueAfter != time.Hour {
		t.Errorf("looks again after %v, want an hour", result.RequeueAfter)
	}
	if !metav1.IsControlledBy(f.Secret(tokenSecret), f.proxy) {
		t.Error("the Secret is not the proxy's")
	}

	f.Coder.Asked()
	writes := f.Writes()
	for range 5 {
		f.Forward(10 * time.Minute)
		again := f.pass()
		if again.Message != result.Message || len(again.Events) != 0 {
			t.Errorf("at rest: %q, Events %q", again.Message, ensuretest.Reasons(again.Events))
		}
	}
	if n := f.Coder.Asked(); n != 0 || f.Writes() != writes {
		t.Errorf("%d requests and %d writes at rest", n, f.Writes()-writes)
	}
	f.Forward(10 * time.Minute)
	f.pass()
	if n := f.Coder.Asked(); n != 2 || f.Writes() != writes {
		t.Errorf("%d requests and %d writes after an hour, want 2 and none", n, f.Writes()-writes)
	}
}

func TestPodsThatAreNotReadyMakeItAskAgainSoon(t *testing.T) {
	f := newFixture(t)
	f.settle()
	f.healthy = false
	f.regenerate()
	f.Coder.Asked()
	f.Forward(59 * time.Second)
	f.pass()
	if n := f.Coder.Asked(); n != 0 {
		t.Errorf("%d requests within a minute", n)
	}
	f.Forward(time.Second)
	if got := ensuretest.Reasons(f.pass().Events); got != "TokenRegenerated" {
		t.Errorf("Events %q", got)
	}
	f.checkWhole(f.Coder, "sydney", "sydney", coderd.DefaultProxyIcon)
}

// TestK19TheTokenIsVerifiedAgainstCoder covers a fault of the predecessor: it never checked the
// token again.
func TestK19TheTokenIsVerifiedAgainstCoder(t *testing.T) {
	f := newFixture(t)
	f.settle()
	old := f.token()
	f.regenerate()
	f.restart()
	result := f.pass()
	f.WantState(result.Result, ensure.Ready, coderv1alpha1.ReasonRegistered)
	if got := ensuretest.Reasons(result.Events); got != "TokenRegenerated" {
		t.Errorf("Events %q", got)
	}
	if f.token() == old {
		t.Error("the Secret has the old token")
	}
	f.checkWhole(f.Coder, "sydney", "sydney", coderd.DefaultProxyIcon)
	f.restart()
	if again := f.pass(); len(again.Events) != 0 {
		t.Errorf("regenerated twice: %q", ensuretest.Reasons(again.Events))
	}
}

// A process is paused and is no longer the leader. The new leader creates and stores a token, and then the
// process continues.
func TestTokenOfANewLeaderStaysValid(t *testing.T) {
	for name, path := range map[string]string{
		"paused before the check": "/api/v2/workspaceproxies/", "paused after the check": "/api/v2/workspaceproxies/me/crypto-keys",
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.settle()
			f.regenerate()
			paused, led := f.manager, false
			f.restart()
			request := Request{Proxy: f.proxy, AccessURL: f.accessURL()}
			paused.Forget(f.proxy.UID)
			paused.NewClient = func(cfg coderd.Config) (*coderd.Client, error) {
				cfg.Transport = transportFunc(func(req *http.Request) (*http.Response, error) {
					res, err := http.DefaultTransport.RoundTrip(req)
					if !led && strings.HasPrefix(req.URL.Path, path) {
						led = true
						f.WantState(f.pass().Result, ensure.Ready, coderv1alpha1.ReasonRegistered)
					}
					return res, err
				})
				return coderd.New(cfg)
			}
			result, err := paused.Ensure(f.Ctx, request)
			if !led {
				t.Fatal("the process was not paused")
			}
			f.checkWhole(f.Coder, "sydney", "sydney", coderd.DefaultProxyIcon)
			f.Must(err)
			f.WantState(result.Result, ensure.Waiting, coderv1alpha1.ReasonWaiting)
		})
	}
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// TestK19NameDisplayNameAndIconAreKeptInLine covers a fault of the predecessor: it ignored changes
// of the spec.
func TestK19NameDisplayNameAndIconAreKeptInLine(t *testing.T) {
	f := newFixture(t)
	f.settle()
	id, token := f.only(f.Coder).ID, f.token()
	bootstrap := &f.proxy.Spec.Bootstrap
	for _, step := range []func(){
		func() { bootstrap.DisplayName = "Sydney, Australia" },
		func() { bootstrap.Icon = "/emojis/1f30f.png" },
		func() { bootstrap.ProxyName = "oceania" },
		func() { bootstrap.ProxyName = "Oceania" },
		func() { bootstrap.DisplayName, bootstrap.Icon, bootstrap.ProxyName = "", "", "" },
	} {
		step()
		result := f.pass()
		f.WantState(result.Result, ensure.Ready, coderv1alpha1.ReasonRegistered)
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
		f.checkWhole(f.Coder, name, display, icon)
		if result.ProxyName != name {
			t.Errorf("the result names %q, want %q", result.ProxyName, name)
		}
	}
	if got := f.only(f.Coder); got.ID != id || f.token() != token {
		t.Error("the proxy was made anew, or its token")
	}
	// A user changes the proxy in Coder.
	if _, _, err := f.as("dev-operator-token", f.Coder).UpdateWorkspaceProxy(f.Ctx, id, "elsewhere", "Elsewhere", "/x.png", false); err != nil {
		t.Fatal(err)
	}
	f.Forward(time.Hour)
	f.settle()
	f.checkWhole(f.Coder, "sydney", "sydney", coderd.DefaultProxyIcon)
}

// TestK19AProxyOfSomebodyElseIsNotSeized covers a fault of the predecessor: it regenerated the
// token of another owner's proxy.
func TestK19AProxyOfSomebodyElseIsNotSeized(t *testing.T) {
	f := newFixture(t)
	theirs := f.Coder.AddProxy("sydney", "Theirs", "/emojis/1f1e6-1f1fa.png")
	for range 3 {
		result := f.pass()
		f.WantState(result.Result, ensure.Failed, coderv1alpha1.ReasonNameTaken)
		if result.TokenRef != nil || result.RequeueAfter < time.Minute || !strings.Contains(result.Message, `"sydney"`) {
			t.Errorf("result %+v", result)
		}
		f.restart()
	}
	if got := f.only(f.Coder); got != theirs {
		t.Errorf("their proxy is %+v, was %+v", got, theirs)
	}
	if f.Writes() != 0 && f.HasSecret(tokenSecret) {
		t.Error("a Secret was made for nothing")
	}
	// Names are compared without regard to case.
	f.Coder.RemoveProxy("sydney")
	f.Coder.AddProxy("SYDNEY", "Theirs", "/x.png")
	f.WantState(f.pass().Result, ensure.Failed, coderv1alpha1.ReasonNameTaken)
	f.Coder.RemoveProxy("SYDNEY")
	f.WantState(f.settle().Result, ensure.Ready, coderv1alpha1.ReasonRegistered)
}

func TestARenameDoesNotSeizeEither(t *testing.T) {
	f := newFixture(t)
	f.settle()
	theirs := f.Coder.AddProxy("oceania", "Theirs", "/x.png")
	f.proxy.Spec.Bootstrap.ProxyName = "oceania"
	f.Coder.ResetRequests()
	result := f.pass()
	f.WantState(result.Result, ensure.Failed, coderv1alpha1.ReasonNameTaken)
	if result.TokenRef == nil || !ptr.Deref(result.Registered, false) || result.ProxyName != "sydney" {
		t.Errorf("what works is not told: %+v", result)
	}
	if n := f.Coder.Writes(); n != 0 {
		t.Errorf("%d writes to Coder", n)
	}
	if p := f.Coder.Proxies(); len(p) != 2 || p[1] != theirs {
		t.Errorf("proxies %+v", p)
	}
}

func TestOfTwoThatWantOneNameTheOlderHasIt(t *testing.T) {
	f := newFixture(t)
	younger := newProxy(func(p *coderv1alpha1.CoderWorkspaceProxy) {
		p.Name, p.UID = "perth", "other-uid"
		p.Spec.Bootstrap.ProxyName = "Sydney"
		p.CreationTimestamp = metav1.NewTime(p.CreationTimestamp.Add(time.Minute))
	})
	f.Create(younger)
	f.Coder.ResetRequests()
	for range 2 {
		result, err := f.manager.Ensure(f.Ctx, Request{Proxy: younger, AccessURL: accessURL})
		if err != nil {
			t.Fatal(err)
		}
		f.WantState(result.Result, ensure.Failed, coderv1alpha1.ReasonNameTaken)
		if !strings.Contains(result.Message, `"sydney"`) || f.Coder.Writes() != 0 {
			t.Errorf("message %q, %d writes to Coder", result.Message, f.Coder.Writes())
		}
		f.settle()
		f.checkWhole(f.Coder, "sydney", "sydney", coderd.DefaultProxyIcon)
		f.Coder.ResetRequests()
	}
	// When the older one is deleted, the younger one gets the name.
	f.remove()
	f.Remove(f.proxy.DeepCopy())
	younger.Status.ProxyName = "Sydney"
	result, err := f.manager.Ensure(f.Ctx, Request{Proxy: younger, AccessURL: accessURL})
	if err != nil {
		t.Fatal(err)
	}
	f.WantState(result.Result, ensure.Ready, coderv1alpha1.ReasonRegistered)
}

// TestACacheThatIsBehindCreatesNothing checks that nothing is registered for a deleted object,
// because no later pass would remove it.
func TestACacheThatIsBehindCreatesNothing(t *testing.T) {
	for name, change := range map[string]func(f *fixture){
		"gone": func(f *fixture) { f.Remove(f.proxy.DeepCopy()) },
		"another one": func(f *fixture) {
			f.Remove(f.proxy.DeepCopy())
			again := newProxy()
			again.UID = "another-uid"
			f.Create(again)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			change(f)
			f.WantState(f.pass().Result, ensure.Waiting, coderv1alpha1.ReasonDeleting)
			if len(f.Coder.Proxies()) != 0 || f.HasSecret(tokenSecret) {
				t.Error("something was made")
			}
		})
	}
}

func TestOneNameInTwoCodersIsNoConflict(t *testing.T) {
	f := newFixture(t)
	other := newProxy(func(p *coderv1alpha1.CoderWorkspaceProxy) {
		p.Name, p.UID, p.Spec.ControlPlaneRef.Name = "zurich", "other-uid", "next"
		p.Spec.Bootstrap.ProxyName, p.Status.ProxyName = "sydney", "sydney"
	})
	f.Create(other)
	f.settle()
	result, err := f.manager.Ensure(f.Ctx, Request{Proxy: other, AccessURL: accessURL})
	if err != nil {
		t.Fatal(err)
	}
	f.WantState(result.Result, ensure.Ready, coderv1alpha1.ReasonRegistered)
}

func TestALostSecretIsMadeAgain(t *testing.T) {
	f := newFixture(t)
	f.settle()
	id := f.only(f.Coder).ID
	f.Remove(f.Secret(tokenSecret))
	result := f.pass()
	f.WantState(result.Result, ensure.Ready, coderv1alpha1.ReasonRegistered)
	f.checkWhole(f.Coder, "sydney", "sydney", coderd.DefaultProxyIcon)
	if f.only(f.Coder).ID != id || ensuretest.Reasons(result.Events) != "TokenRegenerated" {
		t.Errorf("made anew, or Events %q", ensuretest.Reasons(result.Events))
	}
}

func TestALostTokenIsMadeAgain(t *testing.T) {
	f := newFixture(t)
	f.settle()
	for _, value := range []string{"", "nonsense", "00000000-0000-0000-0000-000000000001:" + strings.Repeat("x", 64)} {
		secret := f.Secret(tokenSecret)
		secret.Data = map[string][]byte{"token": []byte(value)}
		f.Update(secret)
		f.settle()
		f.checkWhole(f.Coder, "sydney", "sydney", coderd.DefaultProxyIcon)
	}
}

func TestARegistrationDeletedInCoderIsMadeAnew(t *testing.T) {
	f := newFixture(t)
	f.settle()
	id := f.only(f.Coder).ID
	f.Coder.RemoveProxy("sydney")
	f.Forward(time.Hour)
	if got := ensuretest.Reasons(f.pass().Events); got != "Registered" {
		t.Errorf("Events %q", got)
	}
	f.checkWhole(f.Coder, "sydney", "sydney", coderd.DefaultProxyIcon)
	if f.only(f.Coder).ID == id {
		t.Error("a deleted proxy came back")
	}
}

func TestASecretOfSomebodyElseIsNotTouched(t *testing.T) {
	f := newFixture(t)
	f.secret(tokenSecret, map[string]string{"token": "theirs"})
	f.Coder.Asked()
	result := f.pass()
	f.WantState(result.Result, ensure.Failed, coderv1alpha1.ReasonNotOwned)
	if !result.SecretForeign || result.TokenRef != nil || f.token() != "theirs" || f.Coder.Asked() != 0 {
		t.Errorf("result %+v", result)
	}
}

// TestThePredecessorsSecretIsTakenOver covers a Secret that contains only the token. The token
// begins with the id.
func TestThePredecessorsSecretIsTakenOver(t *testing.T) {
	f := newFixture(t)
	made := f.Coder.AddProxy("sydney", "sydney", "")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ensuretest.Namespace, Name: tokenSecret}, Data: map[string][]byte{"token": []byte(made.Token)}}
	secret.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(f.proxy, coderv1alpha1.GroupVersion.WithKind("CoderWorkspaceProxy"))}
	f.Create(secret)
	f.settle()
	f.checkWhole(f.Coder, "sydney", "sydney", coderd.DefaultProxyIcon)
	if got := f.only(f.Coder); got.ID != made.ID || got.Token != made.Token {
		t.Errorf("proxy %+v, was %+v", got, made)
	}
}

func TestBootstrapNeedsItsToken(t *testing.T) {
	f := newFixture(t)
	f.viaBootstrap()
	f.proxy.Spec.Bootstrap.CredentialsSecretRef.Name = "absent"
	result := f.pass()
	f.WantState(result.Result, ensure.Failed, coderv1alpha1.ReasonTokenSecretMissing)
	if !strings.Contains(result.Message, `"absent"`) || !strings.Contains(result.Message, "credentialsSecretRef") {
		t.Errorf("message %q", result.Message)
	}
	f.proxy.Spec.Bootstrap.CredentialsSecretRef.Name = "owner"
	f.WantState(f.settle().Result, ensure.Ready, coderv1alpha1.ReasonRegistered)
	f.checkWhole(f.other, "sydney", "sydney", coderd.DefaultProxyIcon)
}

func TestControlPlanesThatCannotBeUsed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*coderv1alpha1.CoderControlPlane)
		state  ensure.State
		reason string
	}{
		"no address":   {func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.URL = "" }, ensure.Waiting, coderv1alpha1.ReasonWaiting},
		"no token":     {func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.OperatorTokenSecretRef = nil }, ensure.Waiting, coderv1alpha1.ReasonWaiting},
		"no access":    {func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.OperatorAccessReady = false }, ensure.Waiting, coderv1alpha1.ReasonWaiting},
		"disabled":     {func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.OperatorAccess.Disabled = true }, ensure.Failed, coderv1alpha1.ReasonOperatorAccessDisabled},
		"not readable": {func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.OperatorTokenSecretRef.Name = "absent" }, ensure.Waiting, coderv1alpha1.ReasonWaiting},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.settle()
			cp := &coderv1alpha1.CoderControlPlane{}
			f.Has("dev", cp)
			c.change(cp)
			f.Update(cp)
			f.Coder.Asked()
			result := f.pass()
			f.WantState(result.Result, c.state, c.reason)
			if result.TokenRef == nil || result.ProxyID == "" || result.Registered != nil || f.Coder.Asked() != 0 {
				t.Errorf("what works is lost: %+v", result)
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		f := newFixture(t)
		f.proxy.Spec.ControlPlaneRef.Name = "none"
		f.WantState(f.pass().Result, ensure.Failed, coderv1alpha1.ReasonControlPlaneUnavailable)
	})
}

func TestNamesThatCoderCannotHave(t *testing.T) {
	for _, name := range []string{"primary", "-a", "a b", "0c7a1fa4-2a3b-4f63-9d1c-6f5e7c8b9a00"} {
		f := newFixture(t)
		f.proxy.Spec.Bootstrap.ProxyName = name
		result := f.pass()
		f.WantState(result.Result, ensure.Failed, coderv1alpha1.ReasonInvalidSpec)
		if !strings.Contains(result.Message, "spec.bootstrap.proxyName") || len(f.Coder.Proxies()) != 0 {
			t.Errorf("message %q", result.Message)
		}
	}
}

// TestCoderThatDoesNotDoIt checks that each failed response has a reason, loses nothing and is not
// retried immediately.
func TestCoderThatDoesNotDoIt(t *testing.T) {
	for name, c := range map[string]struct {
		fault  coderdtest.Fault
		state  ensure.State
		reason string
		after  time.Duration
	}{
		"401":       {coderdtest.Fault{Status: 401}, ensure.Waiting, coderv1alpha1.ReasonTokenRefused, time.Minute},
		"403":       {coderdtest.Fault{Status: 403}, ensure.Failed, coderv1alpha1.ReasonForbidden, time.Minute},
		"license":   {coderdtest.Fault{Status: 403, Message: "Workspace Proxy is a Premium feature. Contact sales!"}, ensure.Failed, coderv1alpha1.ReasonNotEntitled, 5 * time.Minute},
		"no route":  {coderdtest.Fault{Status: 404, Message: "Route not found."}, ensure.Failed, coderv1alpha1.ReasonNotSupported, 5 * time.Minute},
		"418":       {coderdtest.Fault{Status: 418}, ensure.Failed, coderv1alpha1.ReasonCoderRefused, time.Minute},
		"429":       {coderdtest.Fault{Status: 429, RetryAfter: 90 * time.Second}, ensure.Waiting, coderv1alpha1.ReasonRateLimited, 90 * time.Second},
		"500":       {coderdtest.Fault{Status: 500}, ensure.Waiting, coderv1alpha1.ReasonUnreachable, 15 * time.Second},
		"garbage":   {coderdtest.Fault{HTML: true, Status: 200}, ensure.Waiting, coderv1alpha1.ReasonUnreachable, 15 * time.Second},
		"no answer": {coderdtest.Fault{DropConnection: true}, ensure.Waiting, coderv1alpha1.ReasonUnreachable, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			fresh := newFixture(t)
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
				f := newFixture(t)
				f.settle()
				f.proxy.Spec.Bootstrap.DisplayName = "Changed"
				fault := c.fault
				fault.Method = method
				end := f.Coder.Fail(fault)
				result := f.pass()
				f.WantState(result.Result, c.state, c.reason)
				if result.TokenRef == nil || result.ProxyID == "" {
					t.Errorf("%s: what works is lost: %+v", method, result)
				}
				end()
				f.settle()
				f.checkWhole(f.Coder, "sydney", "Changed", coderd.DefaultProxyIcon)
			}
		})
	}
}

func TestAnAnswerThatIsLostMakesNoSecondProxy(t *testing.T) {
	for _, fault := range []coderdtest.Fault{{DropConnection: true}, {Status: 500}, {HTML: true}, {Status: 502, HTML: true}} {
		f := newFixture(t)
		fault.Method, fault.Processed, fault.Times = "POST", true, 1
		f.Coder.Fail(fault)
		if result := f.pass(); result.State == ensure.Ready {
			t.Fatalf("%+v", result)
		}
		f.settle()
		f.checkWhole(f.Coder, "sydney", "sydney", coderd.DefaultProxyIcon)
	}
}

func TestTheBuildWithoutLicensesIsNotSupported(t *testing.T) {
	f := newFixture(t)
	agpl := coderdtest.New(t)
	f.controlPlane("agpl", agpl)
	f.proxy.Spec.ControlPlaneRef.Name = "agpl"
	f.WantState(f.pass().Result, ensure.Failed, coderv1alpha1.ReasonNotSupported)
}

func TestALicenseThatEndsLosesNothing(t *testing.T) {
	f := newFixture(t)
	f.settle()
	f.Coder.SetFeature(coderd.FeatureWorkspaceProxy, "not_entitled")
	f.restart()
	result := f.pass()
	f.WantState(result.Result, ensure.Failed, coderv1alpha1.ReasonNotEntitled)
	if result.TokenRef == nil || result.Registered != nil {
		t.Errorf("result %+v", result)
	}
	f.Coder.SetFeature(coderd.FeatureWorkspaceProxy, "entitled")
	f.settle()
	f.checkWhole(f.Coder, "sydney", "sydney", coderd.DefaultProxyIcon)
}

// TestALicenseThatEndsDuringAPass ends the license before each of the requests of a pass.
func TestALicenseThatEndsDuringAPass(t *testing.T) {
	for name, prepare := range map[string]func(*fixture){
		"registration": func(*fixture) {},
		"change":       func(f *fixture) { f.settle(); f.proxy.Spec.Bootstrap.DisplayName = "Sydney" },
		"new token":    func(f *fixture) { f.settle(); f.regenerate(); f.restart() },
	} {
		for at, ended := 0, true; ended; at++ {
			ended = false
			t.Run(fmt.Sprintf("%s, request %d", name, at), func(t *testing.T) {
				f := newFixture(t)
				prepare(f)
				transport := ensuretest.Before(at, func() { ended = true; f.Coder.SetFeature(coderd.FeatureWorkspaceProxy, "not_entitled") })
				f.manager.NewClient = func(cfg coderd.Config) (*coderd.Client, error) {
					cfg.Transport = transport
					return coderd.New(cfg)
				}
				f.pass()
				f.pass()
				f.restart() // From here on the license stays.
				f.Coder.SetFeature(coderd.FeatureWorkspaceProxy, "entitled")
				f.Forward(time.Hour)
				f.settle()
				f.checkWhole(f.Coder, "sydney", cmp.Or(f.proxy.Spec.Bootstrap.DisplayName, "sydney"), coderd.DefaultProxyIcon)
			})
		}
	}
}

func TestARefusalWakesTheControlPlane(t *testing.T) {
	f := newFixture(t)
	f.settle()
	var told []string
	f.manager.Refused = func(key types.NamespacedName) { told = append(told, key.String()) }
	f.regenerate()
	f.Forward(time.Hour)
	f.settle()
	if len(told) != 0 {
		t.Errorf("a refused session token is told of %q", told)
	}
	f.Coder.RevokeToken(string(f.Secret("dev-operator-token").Data["token"]))
	f.Forward(time.Hour)
	f.WantState(f.pass().Result, ensure.Waiting, coderv1alpha1.ReasonTokenRefused)
	if len(told) != 1 || told[0] != "team/dev" {
		t.Errorf("told of %q", told)
	}
}

func TestAGivenTokenThatCoderRefusesNeedsAPerson(t *testing.T) {
	f := newFixture(t)
	f.viaBootstrap()
	f.secret("old", map[string]string{"token": "old-token-of-nobody"})
	f.proxy.Spec.Bootstrap.CredentialsSecretRef.Name = "old"
	f.WantState(f.pass().Result, ensure.Failed, coderv1alpha1.ReasonTokenRefused)
	f.proxy.Spec.Bootstrap.CredentialsSecretRef.Name = "owner"
	f.settle()
	f.checkWhole(f.other, "sydney", "sydney", coderd.DefaultProxyIcon)
}

func TestAMemberMayNotRegister(t *testing.T) {
	f := newFixture(t)
	f.viaBootstrap()
	f.secret("member", map[string]string{"token": f.other.AddUser("bob")})
	f.proxy.Spec.Bootstrap.CredentialsSecretRef.Name = "member"
	f.WantState(f.pass().Result, ensure.Failed, coderv1alpha1.ReasonForbidden)
	f.proxy.Spec.Bootstrap.CredentialsSecretRef.Name = "owner"
	f.settle()
	f.checkWhole(f.other, "sydney", "sydney", coderd.DefaultProxyIcon)
}
