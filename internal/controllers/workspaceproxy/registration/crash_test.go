package registration

import (
	"fmt"
	"testing"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure/ensuretest"
)

// scenario is a state that needs a number of steps.
type scenario struct {
	prepare func(f *fixture)
	// deleted reports that the proxy is removed and not kept. gone reports that it no longer exists
	// after the crash.
	deleted, gone bool
	// after runs after the crash, before the new process continues.
	after func(f *fixture)
	check func(f *fixture)
}

func scenarios() map[string]scenario {
	whole := func(f *fixture) { f.checkWhole(f.Coder, "sydney", "sydney", coderd.DefaultProxyIcon) }
	return map[string]scenario{
		"create": {prepare: func(*fixture) {}, check: whole},
		"create with values": {
			prepare: func(f *fixture) {
				f.proxy.Spec.Bootstrap.DisplayName, f.proxy.Spec.Bootstrap.Icon = "Sydney", "/emojis/1f30f.png"
			},
			check: func(f *fixture) { f.checkWhole(f.Coder, "sydney", "Sydney", "/emojis/1f30f.png") },
		},
		"rename": {
			prepare: func(f *fixture) {
				f.settle()
				f.proxy.Spec.Bootstrap.ProxyName, f.proxy.Spec.Bootstrap.DisplayName = "oceania", "Oceania"
			},
			check: func(f *fixture) { f.checkWhole(f.Coder, "oceania", "Oceania", coderd.DefaultProxyIcon) },
		},
		"refused token": {
			prepare: func(f *fixture) {
				f.settle()
				f.regenerate()
				f.restart()
			},
			check: whole,
		},
		"lost Secret": {
			prepare: func(f *fixture) {
				f.settle()
				f.Remove(f.Secret(tokenSecret))
			},
			check: whole,
		},
		"deleted in Coder": {
			prepare: func(f *fixture) {
				f.settle()
				f.Coder.RemoveProxy("sydney")
				f.restart()
			},
			check: whole,
		},
		"created, then another name": {
			prepare: func(*fixture) {},
			after:   func(f *fixture) { f.proxy.Spec.Bootstrap.ProxyName = "oceania" },
			check:   func(f *fixture) { f.checkWhole(f.Coder, "oceania", "oceania", coderd.DefaultProxyIcon) },
		},
		"delete": {
			prepare: func(f *fixture) { f.settle() }, deleted: true,
			check: func(f *fixture) { f.checkNone(f.Coder.Proxies()) },
		},
		"created, then deleted": {
			prepare: func(*fixture) {}, gone: true,
			check: func(f *fixture) { f.checkNone(f.Coder.Proxies()) },
		},
	}
}

func (f *fixture) checkNone(proxies any) {
	f.T.Helper()
	if text := fmt.Sprintf("%+v", proxies); text != "[]" {
		f.T.Errorf("proxies are left in Coder: %s", text)
	}
}

// regenerate creates a new token of the proxy as another client.
func (f *fixture) regenerate() {
	f.T.Helper()
	p := f.only(f.Coder)
	if _, _, err := f.as("dev-operator-token", f.Coder).UpdateWorkspaceProxy(f.Ctx, p.ID, p.Name, p.DisplayName, p.Icon, true); err != nil {
		f.T.Fatal(err)
	}
}

// as returns a client of Coder without faults, with the token in a Secret.
func (f *fixture) as(secret string, coder *coderdtest.Server) *coderd.Client {
	f.T.Helper()
	return f.As(coder.URL, string(f.Secret(secret).Data["token"]))
}

// viaBootstrap makes the spec register in the other Coder with a user's token.
func (f *fixture) viaBootstrap() {
	f.proxy.Spec.ControlPlaneRef = nil
	f.proxy.Spec.Bootstrap.CoderURL = f.other.URL
	f.proxy.Spec.Bootstrap.CredentialsSecretRef = &coderv1alpha1.TokenSecretReference{Name: "owner"}
}

// giveToken makes the spec use the session token of a proxy that a user created.
func (f *fixture) giveToken() {
	f.T.Helper()
	f.secret("mine", map[string]string{"token": f.Coder.AddProxy("by-hand", "By hand", "/emojis/1f30d.png").Token})
	f.proxy.Spec.ControlPlaneRef = nil
	f.proxy.Spec.ProxySessionTokenSecretRef = &coderv1alpha1.TokenSecretReference{Name: "mine"}
}

func TestCrash(t *testing.T) {
	ensuretest.Crash(t, 2, scenarios(), func(t *testing.T, s scenario) (_ *ensuretest.Fixture, run, resume func()) {
		f := newFixture(t)
		s.prepare(f)
		return f.Fixture, func() { s.run(f) }, func() { s.resume(f) }
	})
}

func (s scenario) run(f *fixture) {
	for range 3 {
		if s.deleted {
			_, _ = f.manager.Remove(f.Ctx, Request{Proxy: f.proxy})
		} else if result, err := f.try(); err == nil && result.State == ensure.Ready {
			return
		}
	}
}

// resume continues with a new process.
func (s scenario) resume(f *fixture) {
	f.restart()
	if s.after != nil {
		s.after(f)
	}
	if s.deleted || s.gone {
		f.remove()
	} else {
		f.settle()
		f.restart()
		f.settle()
	}
	s.check(f)
}
