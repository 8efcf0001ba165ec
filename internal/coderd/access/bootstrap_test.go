package access

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure/ensuretest"
)

// checkWhole checks the invariants of a control plane with access: one token in Coder, which is the
// one in the Secret.
func (w *world) checkWhole() {
	w.T.Helper()
	creds := readAccount(w.Secret("dev-operator-credentials"))
	if names := w.Coder.TokenNames(creds.username); len(names) != 1 {
		w.T.Fatalf("Coder has tokens %v of %q, want one", names, creds.username)
	}
	if me, err := w.as(w.token()).Me(w.Ctx); err != nil || me.Username != creds.username {
		w.T.Errorf("the token in the Secret is of %q (%v), want %q", me.Username, err, creds.username)
	}
	secret := w.Secret("dev-operator-token")
	if left := secret.Annotations[AnnotationPreviousTokenID]; left != "" {
		w.T.Errorf("token %q is still said to be replaced", left)
	}
	if !metav1.IsControlledBy(secret, w.cp) || secret.Labels[coderv1alpha1.LabelInstance] != testName {
		w.T.Errorf("the token Secret has owner %v and labels %v", secret.OwnerReferences, secret.Labels)
	}
}

func (w *world) checkAdmin() {
	w.T.Helper()
	admin := readAccount(w.Secret("dev-initial-admin"))
	if _, err := w.as("").Login(w.Ctx, admin.email, admin.password); err != nil {
		w.T.Errorf("the initial admin cannot log in: %v", err)
	}
	if !w.Coder.HasRole("admin", "owner") {
		w.T.Error("the initial admin is no owner")
	}
}

func TestFreshDeployment(t *testing.T) {
	w := newWorld(t)
	got := w.pass()
	w.WantState(got.Result, Ready, coderv1alpha1.ReasonTokenAccepted)
	w.checkWhole()
	w.checkAdmin()
	if n := w.Coder.Sessions(Username); n != 0 {
		t.Errorf("%d sessions left", n)
	}
	if want := "TokenMinted,InitialAdminCreated"; ensuretest.Reasons(got.Events) != want {
		t.Errorf("events %q, want %q", ensuretest.Reasons(got.Events), want)
	}
	if got.TokenRef == nil || *got.TokenRef != (coderv1alpha1.TokenSecretReference{Name: "dev-operator-token", Key: "token"}) {
		t.Errorf("token ref %v", got.TokenRef)
	}
	if want := w.Clock.Now().Add(7 * 24 * time.Hour); got.ExpiresAt == nil || !got.ExpiresAt.Equal(want) {
		t.Errorf("expires %v, want %v", got.ExpiresAt, want)
	}
	if got := w.Coder.TokenNames(Username); !slices.Equal(got, []string{"coder-k8s-operator-0c08099e1e5683cb"}) {
		t.Errorf("token names %q", got)
	}
	creds := readAccount(w.Secret("dev-operator-credentials"))
	if creds.username != "coder-k8s-operator" || creds.email != "coder-k8s-operator@coder-k8s.invalid" {
		t.Errorf("account %q %q", creds.username, creds.email)
	}
}

func TestPassThatChangesNothingIsQuiet(t *testing.T) {
	w := newWorld(t)
	w.pass()
	for i, want := range []int{1, 0, 0} {
		w.Asked()
		w.Writes = 0
		got := w.pass()
		w.WantState(got.Result, Ready, coderv1alpha1.ReasonTokenAccepted)
		if asked := w.Asked(); asked != want || w.Writes != 0 || len(got.Events) != 0 {
			t.Errorf("pass %d: %d requests (want %d), %d writes, events %v", i, asked, want, w.Writes, got.Events)
		}
	}
	w.Forward(time.Minute)
	w.pass()
	if asked := w.Asked(); asked != 1 {
		t.Errorf("a minute later: %d requests, want one", asked)
	}
	w.manager.Forget(w.cp.UID)
	w.pass()
	if asked := w.Asked(); asked != 1 {
		t.Errorf("after Forget: %d requests, want one", asked)
	}
}

func TestInitialAdminDisabledAndLaterWanted(t *testing.T) {
	w := newWorld(t)
	w.cp.Spec.InitialAdmin = coderv1alpha1.InitialAdminSpec{Disabled: true, Username: "root", Email: "root@example.com"}
	w.WantState(w.pass().Result, Ready, coderv1alpha1.ReasonTokenAccepted)
	if len(w.Coder.Usernames()) != 1 || w.HasSecret("dev-initial-admin") {
		t.Fatalf("users %q", w.Coder.Usernames())
	}
	w.cp.Spec.InitialAdmin.Disabled = false
	w.pass()
	admin := readAccount(w.Secret("dev-initial-admin"))
	if admin.username != "root" || admin.email != "root@example.com" || !w.Coder.HasRole("root", "owner") {
		t.Errorf("admin %q %q, users %q", admin.username, admin.email, w.Coder.Usernames())
	}
}

func TestInitialAdminIsMadeOnce(t *testing.T) {
	w := newWorld(t)
	w.pass()
	w.Delete(w.Secret("dev-initial-admin"))
	w.cp.Spec.InitialAdmin.Username = "other"
	w.Forward(trust)
	w.Asked()
	w.WantState(w.pass().Result, Ready, coderv1alpha1.ReasonTokenAccepted)
	if w.Asked() != 1 || w.HasSecret("dev-initial-admin") {
		t.Error("the initial admin was looked at again")
	}
}

func TestInitialAdminExists(t *testing.T) {
	w := newWorld(t)
	w.cp.Spec.InitialAdmin.Disabled = true
	w.pass()
	w.addAda()
	w.cp.Spec.InitialAdmin = coderv1alpha1.InitialAdminSpec{Username: "ada", Email: "someone@example.com"}
	for range 2 {
		got := w.pass()
		w.WantState(got.Result, Ready, coderv1alpha1.ReasonTokenAccepted)
		if !strings.Contains(got.Message, "no initial admin was made") || len(got.Events) != 0 {
			t.Errorf("message %q, events %v", got.Message, got.Events)
		}
		if w.HasSecret("dev-initial-admin") {
			t.Error("a Secret is there")
		}
	}
	if _, err := w.as("").Login(w.Ctx, "ada@example.com", "ada-Passw0rd!"); err != nil {
		t.Errorf("ada cannot log in any more: %v", err)
	}
}

func TestInitialAdminThatCoderDoesNotAccept(t *testing.T) {
	w := newWorld(t)
	w.cp.Spec.InitialAdmin.Username = "new"
	got := w.pass()
	w.WantState(got.Result, Failed, coderv1alpha1.ReasonInvalidSpec)
	if !strings.Contains(got.Message, "spec.initialAdmin") || got.TokenRef == nil {
		t.Errorf("message %q, token ref %v", got.Message, got.TokenRef)
	}
	w.cp.Spec.InitialAdmin.Username = "admin"
	w.settle()
	w.checkAdmin()
}

func TestSecretNames(t *testing.T) {
	long := strings.Repeat("a", 60)
	for name, c := range map[string]struct{ name, given, token, credentials, admin string }{
		"short":    {name: "dev", token: "dev-operator-token", credentials: "dev-operator-credentials", admin: "dev-initial-admin"},
		"given":    {name: "dev", given: "t", token: "t", credentials: "dev-operator-credentials", admin: "dev-initial-admin"},
		"too long": {name: long, token: long[:39] + "-92b9e111-operator-token", credentials: long[:33] + "-92b9e111-operator-credentials", admin: long[:40] + "-92b9e111-initial-admin"},
	} {
		t.Run(name, func(t *testing.T) {
			cp := &coderv1alpha1.CoderControlPlane{ObjectMeta: metav1.ObjectMeta{Name: c.name}}
			cp.Spec.OperatorAccess.GeneratedTokenSecretName = c.given
			for got, want := range map[string]string{
				TokenSecretName(cp): c.token, CredentialsSecretName(cp): c.credentials, InitialAdminSecretName(cp): c.admin,
			} {
				if got != want || len(got) > 63 {
					t.Errorf("got %q (%d), want %q", got, len(got), want)
				}
			}
		})
	}
}
