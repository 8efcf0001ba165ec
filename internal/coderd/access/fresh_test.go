package access

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// checkWhole says what is true of a control plane that has access: one token in
// Coder, which is the one in the Secret, and no session left.
func (w *world) checkWhole() {
	w.t.Helper()
	tokens := w.coder.tokens()
	if len(tokens) != 1 {
		var names []string
		for _, k := range tokens {
			names = append(names, k.TokenName)
		}
		w.t.Fatalf("Coder has tokens %v, want one", names)
	}
	secret := w.secret("dev-operator-token")
	if got := string(secret.Data["token"]); got != tokens[0].value {
		w.t.Error("the Secret does not hold the token that Coder has")
	}
	if left := secret.Annotations[AnnotationPreviousTokenID]; left != "" {
		w.t.Errorf("token %q is still said to be replaced", left)
	}
	if !metav1.IsControlledBy(secret, w.cp) || secret.Labels[coderv1alpha1.LabelInstance] != testName {
		w.t.Errorf("the token Secret has owner %v and labels %v", secret.OwnerReferences, secret.Labels)
	}
}

func (w *world) checkAdmin() {
	w.t.Helper()
	admin := readAccount(w.secret("dev-initial-admin"))
	user := w.coder.user("admin")
	if user == nil || user.password != admin.password || fmt.Sprint(user.Roles) != "[map[name:owner]]" {
		w.t.Errorf("initial admin in Coder is %+v, want an owner with the password of the Secret", user)
	}
}

func TestFreshDeployment(t *testing.T) {
	w := newWorld(t)
	got := w.pass()
	wantState(t, got, Ready, coderv1alpha1.ReasonTokenAccepted)
	w.checkWhole()
	w.checkAdmin()
	if n := w.coder.sessions(); n != 0 {
		t.Errorf("%d sessions left", n)
	}
	if want := "TokenMinted,InitialAdminCreated"; reasons(got) != want {
		t.Errorf("events %q, want %q", reasons(got), want)
	}
	if got.TokenRef == nil || *got.TokenRef != (coderv1alpha1.TokenSecretReference{Name: "dev-operator-token", Key: "token"}) {
		t.Errorf("token ref %v", got.TokenRef)
	}
	if want := w.clock.Now().Add(7 * 24 * time.Hour); got.ExpiresAt == nil || !got.ExpiresAt.Equal(want) {
		t.Errorf("expires %v, want %v", got.ExpiresAt, want)
	}
	if name := w.coder.tokens()[0].TokenName; name != "coder-k8s-operator-85daeb0c58ac2a2d" {
		t.Errorf("token name %q", name)
	}
	creds := readAccount(w.secret("dev-operator-credentials"))
	if creds.username != "coder-k8s-operator" || creds.email != "coder-k8s-operator@coder-k8s.invalid" {
		t.Errorf("account %q %q", creds.username, creds.email)
	}
}

func TestPassThatChangesNothingIsQuiet(t *testing.T) {
	w := newWorld(t)
	w.pass()
	for i, want := range []int{1, 0, 0} {
		w.coder.asked()
		w.writes = 0
		got := w.pass()
		wantState(t, got, Ready, coderv1alpha1.ReasonTokenAccepted)
		if asked := w.coder.asked(); len(asked) != want || w.writes != 0 || len(got.Events) != 0 {
			t.Errorf("pass %d: requests %v (want %d), %d writes, events %v", i, asked, want, w.writes, got.Events)
		}
	}
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	w.pass()
	if asked := w.coder.asked(); len(asked) != 1 {
		t.Errorf("a minute later: requests %v, want one", asked)
	}
	w.manager.Forget(w.cp.UID)
	w.pass()
	if asked := w.coder.asked(); len(asked) != 1 {
		t.Errorf("after Forget: requests %v, want one", asked)
	}
}

// scenario is a state from which Ensure has a number of steps to do.
type scenario struct {
	prepare func(w *world)
	check   func(w *world)
}

func scenarios() map[string]scenario {
	return map[string]scenario{
		"fresh": {
			prepare: func(*world) {},
			check:   func(w *world) { w.checkWhole(); w.checkAdmin() },
		},
		"rotation": {
			prepare: func(w *world) {
				w.settle()
				w.clock.SetTime(w.clock.Now().Add(5 * 24 * time.Hour))
			},
			check: func(w *world) { w.checkWhole(); w.checkAdmin() },
		},
		"refused token": {
			prepare: func(w *world) {
				w.settle()
				w.coder.change(func() { w.coder.removeKey(w.coder.keys[0].ID) })
				w.restart()
			},
			check: func(w *world) { w.checkWhole(); w.checkAdmin() },
		},
		"users exist": {
			prepare: func(w *world) { w.coder.addUser("ada", "ada@example.com", "x", "owner") },
			check: func(w *world) {
				w.checkWhole()
				if w.coder.user("admin") != nil || w.coder.user(Username) != nil {
					w.t.Error("made an account that does not belong here")
				}
				if len(w.coder.users) != 2 {
					w.t.Errorf("%d users, want ada and the operator", len(w.coder.users))
				}
				if w.get(jobName, &batchv1.Job{}) {
					w.t.Error("the Job is still there")
				}
			},
		},
		"own token replaced by a given one": {
			prepare: func(w *world) {
				w.settle()
				w.giveToken(w.coder.addKey(w.coder.addUser("ada", "ada@example.com", "x", "owner"), "mine", false, 0).value)
			},
			check: func(w *world) {
				if tokens := w.coder.tokens(); len(tokens) != 1 || tokens[0].TokenName != "mine" {
					w.t.Errorf("tokens %v, want the given one alone", tokens)
				}
			},
		},
	}
}

// TestCrash kills the process at every single write and request, once before the
// other side hears of it and once after, and lets a new process go on.
func TestCrash(t *testing.T) {
	for name, s := range scenarios() {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/answer lost=%t", name, lost), func(t *testing.T) {
				for at := 1; ; at++ {
					if at > 60 {
						t.Fatal("the steps do not end")
					}
					if !crashAt(t, s, at, lost) {
						if at < 4 {
							t.Fatalf("only %d steps seen", at-1)
						}
						return
					}
				}
			})
		}
	}
}

// crashAt says whether there was a step to crash at.
func crashAt(t *testing.T, s scenario, at int, lost bool) bool {
	t.Helper()
	w := newWorld(t)
	s.prepare(w)
	w.fault.set(at, lost)
	for range 6 {
		result, err := w.manager.Ensure(w.ctx, w.request())
		w.checkSilence(result, err)
		if w.fault.struck() || result.State == Ready {
			break
		}
		dead := w.fault.at
		w.fault.at = 0
		w.runJob()
		w.fault.at = dead
	}
	struck := w.fault.struck()
	w.restart()
	w.settle()
	w.pass()
	s.check(w)
	if t.Failed() {
		t.Fatalf("after a crash at step %d", at)
	}
	return struck
}
