package registration

import (
	"fmt"
	"testing"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure/ensuretest"
)

// scenario is a state that needs a number of steps.
type scenario struct {
	prepare func(w *world)
	// deleted reports that the proxy is removed and not kept. gone reports that it no longer exists
	// after the crash.
	deleted, gone bool
	// after runs after the crash, before the new process continues.
	after func(w *world)
	check func(w *world)
}

func scenarios() map[string]scenario {
	whole := func(w *world) { w.checkWhole(w.Coder, "sydney", "sydney", coderd.DefaultProxyIcon) }
	moved := func(w *world) {
		w.checkWhole(w.other, "sydney", "sydney", coderd.DefaultProxyIcon)
		w.checkNone(w.Coder.Proxies())
	}
	return map[string]scenario{
		"create": {prepare: func(*world) {}, check: whole},
		"create with values": {
			prepare: func(w *world) {
				w.proxy.Spec.Bootstrap.DisplayName, w.proxy.Spec.Bootstrap.Icon = "Sydney", "/emojis/1f30f.png"
			},
			check: func(w *world) { w.checkWhole(w.Coder, "sydney", "Sydney", "/emojis/1f30f.png") },
		},
		"rename": {
			prepare: func(w *world) {
				w.settle()
				w.proxy.Spec.Bootstrap.ProxyName, w.proxy.Spec.Bootstrap.DisplayName = "oceania", "Oceania"
			},
			check: func(w *world) { w.checkWhole(w.Coder, "oceania", "Oceania", coderd.DefaultProxyIcon) },
		},
		"refused token": {
			prepare: func(w *world) {
				w.settle()
				w.regenerate()
				w.restart()
			},
			check: whole,
		},
		"lost Secret": {
			prepare: func(w *world) {
				w.settle()
				w.Delete(w.Secret(tokenSecret))
			},
			check: whole,
		},
		"deleted in Coder": {
			prepare: func(w *world) {
				w.settle()
				w.Coder.RemoveProxy("sydney")
				w.restart()
			},
			check: whole,
		},
		"another Coder": {
			prepare: func(w *world) {
				w.settle()
				w.proxy.Spec.ControlPlaneRef.Name = "next"
			},
			check: moved,
		},
		"another way": {
			prepare: func(w *world) {
				w.settle()
				w.viaBootstrap()
			},
			check: moved,
		},
		"created, then another Coder": {
			prepare: func(*world) {},
			after:   func(w *world) { w.proxy.Spec.ControlPlaneRef.Name = "next" },
			check:   moved,
		},
		"created, then another name": {
			prepare: func(*world) {},
			after:   func(w *world) { w.proxy.Spec.Bootstrap.ProxyName = "oceania" },
			check:   func(w *world) { w.checkWhole(w.Coder, "oceania", "oceania", coderd.DefaultProxyIcon) },
		},
		"another Coder, and back": {
			prepare: func(w *world) {
				w.settle()
				w.proxy.Spec.ControlPlaneRef.Name = "next"
			},
			after: func(w *world) { w.proxy.Spec.ControlPlaneRef.Name = "dev" },
			check: func(w *world) {
				whole(w)
				w.checkNone(w.other.Proxies())
			},
		},
		"another Secret": {
			prepare: func(w *world) {
				w.settle()
				w.proxy.Spec.Bootstrap.GeneratedTokenSecretName = "renamed"
			},
			after: func(w *world) { w.proxy.Spec.Bootstrap.GeneratedTokenSecretName = tokenSecret },
			check: func(w *world) {
				whole(w)
				if w.HasSecret("renamed") {
					w.T.Error("two Secrets are there")
				}
			},
		},
		"own token": {
			prepare: func(w *world) {
				w.settle()
				w.giveToken()
			},
			check: func(w *world) {
				if got := w.only(w.Coder); got.Name != "by-hand" {
					w.T.Errorf("Coder has the proxy %q", got.Name)
				}
				if w.HasSecret(tokenSecret) {
					w.T.Error("the Secret of the former registration is left")
				}
			},
		},
		"delete": {
			prepare: func(w *world) { w.settle() }, deleted: true,
			check: func(w *world) { w.checkNone(w.Coder.Proxies()) },
		},
		"created, then deleted": {
			prepare: func(*world) {}, gone: true,
			check: func(w *world) { w.checkNone(w.Coder.Proxies()) },
		},
	}
}

func (w *world) checkNone(proxies any) {
	w.T.Helper()
	if text := fmt.Sprintf("%+v", proxies); text != "[]" {
		w.T.Errorf("proxies are left in Coder: %s", text)
	}
}

// regenerate creates a new token of the proxy as another client.
func (w *world) regenerate() {
	w.T.Helper()
	p := w.only(w.Coder)
	if _, _, err := w.as("dev-operator-token", w.Coder).UpdateWorkspaceProxy(w.Ctx, p.ID, p.Name, p.DisplayName, p.Icon, true); err != nil {
		w.T.Fatal(err)
	}
}

// as returns a client of Coder without faults, with the token in a Secret.
func (w *world) as(secret string, coder *coderdtest.Server) *coderd.Client {
	w.T.Helper()
	return w.As(coder.URL, string(w.Secret(secret).Data["token"]))
}

// viaBootstrap makes the spec register in the other Coder with a user's token.
func (w *world) viaBootstrap() {
	w.proxy.Spec.ControlPlaneRef = nil
	w.proxy.Spec.Bootstrap.CoderURL = w.other.URL
	w.proxy.Spec.Bootstrap.CredentialsSecretRef = &coderv1alpha1.TokenSecretReference{Name: "owner"}
}

// giveToken makes the spec use the session token of a proxy that a user created.
func (w *world) giveToken() {
	w.T.Helper()
	w.secret("mine", map[string]string{"token": w.Coder.AddProxy("by-hand", "By hand", "/emojis/1f30d.png").Token})
	w.proxy.Spec.ControlPlaneRef = nil
	w.proxy.Spec.ProxySessionTokenSecretRef = &coderv1alpha1.TokenSecretReference{Name: "mine"}
}

func TestCrash(t *testing.T) {
	ensuretest.Crash(t, 2, scenarios(), func(t *testing.T, s scenario) (_ *ensuretest.World, run, resume func()) {
		w := newWorld(t)
		s.prepare(w)
		return w.World, func() { s.run(w) }, func() { s.resume(w) }
	})
}

func (s scenario) run(w *world) {
	for range 3 {
		if s.deleted {
			_, _ = w.manager.Remove(w.Ctx, Request{Proxy: w.proxy})
		} else if result, err := w.try(); err == nil && result.State == Ready {
			return
		}
	}
}

// resume continues with a new process.
func (s scenario) resume(w *world) {
	w.restart()
	if s.after != nil {
		s.after(w)
	}
	if s.deleted || s.gone {
		w.remove()
	} else {
		w.settle()
		w.restart()
		w.settle()
	}
	s.check(w)
}
