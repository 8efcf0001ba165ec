package access

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure/ensuretest"
)

// checkWhole checks the invariants of a control plane with access: one token in Coder, which is the
// one in the Secret.
func (f *fixture) checkWhole() {
	f.T.Helper()
	creds := readAccount(f.Secret("dev-operator-credentials"))
	if names := f.Coder.TokenNames(creds.username); len(names) != 1 {
		f.T.Fatalf("Coder has tokens %v of %q, want one", names, creds.username)
	}
	if me, err := f.as(f.token()).Me(f.Ctx); err != nil || me.Username != creds.username {
		f.T.Errorf("the token in the Secret is of %q (%v), want %q", me.Username, err, creds.username)
	}
	secret := f.Secret("dev-operator-token")
	if left := secret.Annotations[AnnotationPreviousTokenID]; left != "" {
		f.T.Errorf("token %q is still said to be replaced", left)
	}
	if !metav1.IsControlledBy(secret, f.cp) || secret.Labels[coderv1alpha1.LabelInstance] != testName {
		f.T.Errorf("the token Secret has owner %v and labels %v", secret.OwnerReferences, secret.Labels)
	}
}

func (f *fixture) checkAdmin() {
	f.T.Helper()
	admin := readAccount(f.Secret("dev-initial-admin"))
	if _, err := f.as("").Login(f.Ctx, admin.email, admin.password); err != nil {
		f.T.Errorf("the initial admin cannot log in: %v", err)
	}
	if !f.Coder.HasRole("admin", "owner") {
		f.T.Error("the initial admin is no owner")
	}
}

func TestFreshDeployment(t *testing.T) {
	f := newFixture(t)
	got := f.pass()
	f.WantState(got.Result, ensure.Ready, coderv1alpha1.ReasonTokenAccepted)
	f.checkWhole()
	f.checkAdmin()
	if n := f.Coder.Sessions(coderv1alpha1.OperatorUsername); n != 0 {
		t.Errorf("%d sessions left", n)
	}
	if want := "TokenMinted,InitialAdminCreated"; ensuretest.Reasons(got.Events) != want {
		t.Errorf("events %q, want %q", ensuretest.Reasons(got.Events), want)
	}
	if got.TokenRef == nil || *got.TokenRef != (coderv1alpha1.TokenSecretReference{Name: "dev-operator-token", Key: "token"}) {
		t.Errorf("token ref %v", got.TokenRef)
	}
	if want := f.Clock.Now().Add(7 * 24 * time.Hour); got.ExpiresAt == nil || !got.ExpiresAt.Equal(want) {
		t.Errorf("expires %v, want %v", got.ExpiresAt, want)
	}
	if got := f.Coder.TokenNames(coderv1alpha1.OperatorUsername); !slices.Equal(got, []string{"coder-k8s-operator-0c08099e1e5683cb"}) {
		t.Errorf("token names %q", got)
	}
	creds := readAccount(f.Secret("dev-operator-credentials"))
	if creds.username != "coder-k8s-operator" || creds.email != "coder-k8s-operator@coder-k8s.invalid" {
		t.Errorf("account %q %q", creds.username, creds.email)
	}
}

func TestPassThatChangesNothingIsQuiet(t *testing.T) {
	f := newFixture(t)
	f.pass()
	for i, want := range []int{1, 0, 0} {
		f.Coder.Asked()
		f.TakeWrites()
		got := f.pass()
		f.WantState(got.Result, ensure.Ready, coderv1alpha1.ReasonTokenAccepted)
		if asked := f.Coder.Asked(); asked != want || f.Writes() != 0 || len(got.Events) != 0 {
			t.Errorf("pass %d: %d requests (want %d), %d writes, events %v", i, asked, want, f.Writes(), got.Events)
		}
	}
	f.Forward(time.Minute)
	f.pass()
	if asked := f.Coder.Asked(); asked != 1 {
		t.Errorf("a minute later: %d requests, want one", asked)
	}
	f.manager.Forget(f.cp.UID)
	f.pass()
	if asked := f.Coder.Asked(); asked != 1 {
		t.Errorf("after Forget: %d requests, want one", asked)
	}
}

func TestInitialAdminDisabledAndLaterWanted(t *testing.T) {
	f := newFixture(t)
	f.cp.Spec.InitialAdmin = coderv1alpha1.InitialAdminSpec{Disabled: true, Username: "root", Email: "root@example.com"}
	f.WantState(f.pass().Result, ensure.Ready, coderv1alpha1.ReasonTokenAccepted)
	if len(f.Coder.Usernames()) != 1 || f.HasSecret("dev-initial-admin") {
		t.Fatalf("users %q", f.Coder.Usernames())
	}
	f.cp.Spec.InitialAdmin.Disabled = false
	f.pass()
	admin := readAccount(f.Secret("dev-initial-admin"))
	if admin.username != "root" || admin.email != "root@example.com" || !f.Coder.HasRole("root", "owner") {
		t.Errorf("admin %q %q, users %q", admin.username, admin.email, f.Coder.Usernames())
	}
}

func TestInitialAdminIsMadeOnce(t *testing.T) {
	f := newFixture(t)
	f.pass()
	f.Remove(f.Secret("dev-initial-admin"))
	f.cp.Spec.InitialAdmin.Username = "other"
	f.Forward(trust)
	f.Coder.Asked()
	f.WantState(f.pass().Result, ensure.Ready, coderv1alpha1.ReasonTokenAccepted)
	if f.Coder.Asked() != 1 || f.HasSecret("dev-initial-admin") {
		t.Error("the initial admin was looked at again")
	}
}

func TestInitialAdminExists(t *testing.T) {
	f := newFixture(t)
	f.cp.Spec.InitialAdmin.Disabled = true
	f.pass()
	f.addAda()
	f.cp.Spec.InitialAdmin = coderv1alpha1.InitialAdminSpec{Username: "ada", Email: "someone@example.com"}
	for range 2 {
		got := f.pass()
		f.WantState(got.Result, ensure.Ready, coderv1alpha1.ReasonTokenAccepted)
		if !strings.Contains(got.Message, "no initial admin was created") || len(got.Events) != 0 {
			t.Errorf("message %q, events %v", got.Message, got.Events)
		}
		if f.HasSecret("dev-initial-admin") {
			t.Error("a Secret is there")
		}
	}
	if _, err := f.as("").Login(f.Ctx, "ada@example.com", "ada-Passw0rd!"); err != nil {
		t.Errorf("ada cannot log in any more: %v", err)
	}
}

func TestInitialAdminThatCoderDoesNotAccept(t *testing.T) {
	f := newFixture(t)
	f.cp.Spec.InitialAdmin.Username = "new"
	got := f.pass()
	f.WantState(got.Result, ensure.Failed, coderv1alpha1.ReasonInvalidSpec)
	if !strings.Contains(got.Message, "spec.initialAdmin") || got.TokenRef == nil {
		t.Errorf("message %q, token ref %v", got.Message, got.TokenRef)
	}
	f.cp.Spec.InitialAdmin.Username = "admin"
	f.settle()
	f.checkAdmin()
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
				TokenSecretName(cp): c.token, CredentialsSecretName(cp): c.credentials, coderv1alpha1.InitialAdminSecretName(cp.Name): c.admin,
			} {
				if got != want || len(got) > 63 {
					t.Errorf("got %q (%d), want %q", got, len(got), want)
				}
			}
		})
	}
}

func TestALoginThatFailsAfterItsSessionBeganEndsTheSession(t *testing.T) {
	f := newFixture(t)
	f.Coder.Fail(coderdtest.Fault{Method: "GET", PathPrefix: "/api/v2/users/me", Status: 500, Times: 1})
	if got := f.pass(); got.State == ensure.Ready {
		t.Fatalf("the pass is %+v", got.Result)
	}
	if n := f.Coder.Sessions(coderv1alpha1.OperatorUsername); n != 0 {
		t.Errorf("%d sessions left", n)
	}
}
