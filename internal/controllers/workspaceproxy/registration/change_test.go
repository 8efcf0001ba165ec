package registration

import (
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure/ensuretest"
)

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

func TestAnOwnTokenThatDoesNotWorkIsReported(t *testing.T) {
	f := newFixture(t)
	f.settle()
	f.secret("bad", map[string]string{"token": "00000000-0000-0000-0000-000000000001:" + strings.Repeat("x", 64)})
	f.proxy.Spec.ControlPlaneRef = nil
	for name, reason := range map[string]string{
		"absent": coderv1alpha1.ReasonTokenSecretMissing, "bad": coderv1alpha1.ReasonTokenRefused, tokenSecret: coderv1alpha1.ReasonInvalidSpec,
	} {
		f.proxy.Spec.ProxySessionTokenSecretRef = &coderv1alpha1.TokenSecretReference{Name: name, Key: "token"}
		result := f.pass()
		f.WantState(result.Result, ensure.Failed, reason)
		if len(f.Coder.Proxies()) != 1 || ptr.Deref(result.Registered, false) {
			t.Errorf("%s: %d proxies, result %+v", name, len(f.Coder.Proxies()), result)
		}
	}
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
			if ensuretest.Reasons(result.Events) != "Unregistered" || result.LeftBehind != "" {
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
	if !strings.Contains(result.LeftBehind, `"sydney"`) {
		t.Errorf("left behind: %q", result.LeftBehind)
	}
	end()
	cp := &coderv1alpha1.CoderControlPlane{}
	f.Has("dev", cp)
	f.Remove(cp)
	result = f.remove()
	f.WantState(result.Result, ensure.Ready, coderv1alpha1.ReasonUnregistered)
	if !strings.Contains(result.LeftBehind, `no CoderControlPlane "dev"`) {
		t.Errorf("left behind: %q", result.LeftBehind)
	}
}
