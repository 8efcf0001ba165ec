package registration

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/kube/crashtest"
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
	whole := func(w *world) { w.checkWhole(w.coder, "sydney", "sydney", coderd.DefaultProxyIcon) }
	moved := func(w *world) {
		w.checkWhole(w.other, "sydney", "sydney", coderd.DefaultProxyIcon)
		w.checkNone(w.coder.Proxies())
	}
	return map[string]scenario{
		"create": {prepare: func(*world) {}, check: whole},
		"create with values": {
			prepare: func(w *world) {
				w.proxy.Spec.Bootstrap.DisplayName, w.proxy.Spec.Bootstrap.Icon = "Sydney", "/emojis/1f30f.png"
			},
			check: func(w *world) { w.checkWhole(w.coder, "sydney", "Sydney", "/emojis/1f30f.png") },
		},
		"rename": {
			prepare: func(w *world) {
				w.settle()
				w.proxy.Spec.Bootstrap.ProxyName, w.proxy.Spec.Bootstrap.DisplayName = "oceania", "Oceania"
			},
			check: func(w *world) { w.checkWhole(w.coder, "oceania", "Oceania", coderd.DefaultProxyIcon) },
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
				w.drop(w.read(tokenSecret))
			},
			check: whole,
		},
		"deleted in Coder": {
			prepare: func(w *world) {
				w.settle()
				w.coder.RemoveProxy("sydney")
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
			check:   func(w *world) { w.checkWhole(w.coder, "oceania", "oceania", coderd.DefaultProxyIcon) },
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
				if w.get("renamed", &corev1.Secret{}) {
					w.t.Error("two Secrets are there")
				}
			},
		},
		"own token": {
			prepare: func(w *world) {
				w.settle()
				w.giveToken()
			},
			check: func(w *world) {
				if got := w.only(w.coder); got.Name != "by-hand" {
					w.t.Errorf("Coder has the proxy %q", got.Name)
				}
				if w.get(tokenSecret, &corev1.Secret{}) {
					w.t.Error("the Secret of the former registration is left")
				}
			},
		},
		"delete": {
			prepare: func(w *world) { w.settle() }, deleted: true,
			check: func(w *world) { w.checkNone(w.coder.Proxies()) },
		},
		"created, then deleted": {
			prepare: func(*world) {}, gone: true,
			check: func(w *world) { w.checkNone(w.coder.Proxies()) },
		},
	}
}

func (w *world) checkNone(proxies any) {
	w.t.Helper()
	if text := fmt.Sprintf("%+v", proxies); text != "[]" {
		w.t.Errorf("proxies are left in Coder: %s", text)
	}
}

// regenerate creates a new token of the proxy as another client.
func (w *world) regenerate() {
	w.t.Helper()
	p := w.only(w.coder)
	if _, _, err := w.as("dev-operator-token", w.coder.URL).UpdateWorkspaceProxy(w.ctx, p.ID, p.Name, p.DisplayName, p.Icon, true); err != nil {
		w.t.Fatal(err)
	}
}

// as returns a client of Coder without faults.
func (w *world) as(secret, url string) *coderd.Client {
	w.t.Helper()
	c, err := coderd.New(coderd.Config{URL: url, Token: string(w.read(secret).Data["token"])})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// viaBootstrap makes the spec register in the other Coder with a user's token.
func (w *world) viaBootstrap() {
	w.proxy.Spec.ControlPlaneRef = nil
	w.proxy.Spec.Bootstrap.CoderURL = w.other.URL
	w.proxy.Spec.Bootstrap.CredentialsSecretRef = &coderv1alpha1.TokenSecretReference{Name: "owner"}
}

// giveToken makes the spec use the session token of a proxy that a user created.
func (w *world) giveToken() {
	w.t.Helper()
	w.secret("mine", map[string]string{"token": w.coder.AddProxy("by-hand", "By hand", "/emojis/1f30d.png").Token})
	w.proxy.Spec.ControlPlaneRef = nil
	w.proxy.Spec.ProxySessionTokenSecretRef = &coderv1alpha1.TokenSecretReference{Name: "mine"}
}

// TestCrash kills the process at every single write and request, once before the server receives it
// and once after, and continues with a new process.
func TestCrash(t *testing.T) {
	for name, s := range scenarios() {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/answer lost=%t", name, lost), func(t *testing.T) {
				t.Parallel()
				crashtest.EachStep(t, 2, func(at int) bool { return crashAt(t, s, at, lost) })
			})
		}
	}
}

// crashAt reports whether there was a step to crash at.
func crashAt(t *testing.T, s scenario, at int, lost bool) bool {
	t.Helper()
	w := newWorld(t)
	s.prepare(w)
	w.fault.Set(at, lost)
	for range 3 {
		if s.deleted {
			_, _ = w.manager.Remove(w.ctx, Request{Proxy: w.proxy})
		} else if result, err := w.try(); err == nil && result.State == Ready {
			break
		}
	}
	struck := w.fault.Struck()
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
	if t.Failed() {
		t.Fatalf("after a crash at step %d", at)
	}
	return struck
}
