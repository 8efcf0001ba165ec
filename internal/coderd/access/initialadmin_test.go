package access

import (
	"strings"
	"testing"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

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
