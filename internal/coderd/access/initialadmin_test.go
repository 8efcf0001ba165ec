package access

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

func TestInitialAdminDisabledAndLaterWanted(t *testing.T) {
	w := newWorld(t)
	w.cp.Spec.InitialAdmin = coderv1alpha1.InitialAdminSpec{Disabled: true, Username: "root", Email: "root@example.com"}
	wantState(t, w.pass(), Ready, coderv1alpha1.ReasonTokenAccepted)
	if len(w.coder.Usernames()) != 1 || w.get("dev-initial-admin", &corev1.Secret{}) {
		t.Fatalf("users %q", w.coder.Usernames())
	}
	w.cp.Spec.InitialAdmin.Disabled = false
	w.pass()
	admin := readAccount(w.secret("dev-initial-admin"))
	if admin.username != "root" || admin.email != "root@example.com" || !w.coder.HasRole("root", "owner") {
		t.Errorf("admin %q %q, users %q", admin.username, admin.email, w.coder.Usernames())
	}
}

func TestInitialAdminIsMadeOnce(t *testing.T) {
	w := newWorld(t)
	w.pass()
	w.remove(w.secret("dev-initial-admin"))
	w.cp.Spec.InitialAdmin.Username = "other"
	w.forward(trust)
	w.asked()
	wantState(t, w.pass(), Ready, coderv1alpha1.ReasonTokenAccepted)
	if w.asked() != 1 || w.get("dev-initial-admin", &corev1.Secret{}) {
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
		wantState(t, got, Ready, coderv1alpha1.ReasonTokenAccepted)
		if !strings.Contains(got.Message, "no initial admin was made") || len(got.Events) != 0 {
			t.Errorf("message %q, events %v", got.Message, got.Events)
		}
		if w.get("dev-initial-admin", &corev1.Secret{}) {
			t.Error("a Secret is there")
		}
	}
	if _, err := w.as("").Login(w.ctx, "ada@example.com", "ada-Passw0rd!"); err != nil {
		t.Errorf("ada cannot log in any more: %v", err)
	}
}

func TestInitialAdminThatCoderDoesNotAccept(t *testing.T) {
	w := newWorld(t)
	w.cp.Spec.InitialAdmin.Username = "new"
	got := w.pass()
	wantState(t, got, Failed, coderv1alpha1.ReasonInvalidSpec)
	if !strings.Contains(got.Message, "spec.initialAdmin") || got.TokenRef == nil {
		t.Errorf("message %q, token ref %v", got.Message, got.TokenRef)
	}
	w.cp.Spec.InitialAdmin.Username = "admin"
	w.settle()
	w.checkAdmin()
}
